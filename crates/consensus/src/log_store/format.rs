//! Frames: how bytes lie in the log store's files.
//!
//! ```text
//! start mark | length | CRC of the length | CRC of the payload | payload | end mark
//!     4      |   4    |         4         |         4          |         |    4
//! ```
//!
//! Numbers are little-endian, CRCs are CRC-32. Everything that one write makes durable is one
//! frame, so after a crash only the last frame can be incomplete.
//!
//! A file system may make the sectors of a write durable in any order, and those that it did not
//! write read as zeros. So the last frame is *torn* if the file is too short for it, or if one of
//! its sectors is all zeros; neither mark contains a zero byte, so no sector of a whole frame is,
//! unless a payload has 512 zeros. A torn frame was never acknowledged. Any other defect is a
//! corruption of bytes that may have been acknowledged.

const START: [u8; 4] = *b"Mutu";
const END: [u8; 4] = *b"utuM";
const HEADER: usize = 16;
const SECTOR: usize = 512;

/// Append a frame.
pub(crate) fn write_frame(payload: &[u8], out: &mut Vec<u8>) {
    let length = u32::try_from(payload.len()).expect("a frame has less than 4 GiB").to_le_bytes();
    out.extend_from_slice(&START);
    out.extend_from_slice(&length);
    out.extend_from_slice(&crc32fast::hash(&length).to_le_bytes());
    out.extend_from_slice(&crc32fast::hash(payload).to_le_bytes());
    out.extend_from_slice(payload);
    out.extend_from_slice(&END);
}

/// One frame.
pub(crate) fn frame(payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(payload.len() + HEADER + END.len());
    write_frame(payload, &mut out);
    out
}

/// What stands at some offset of a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found<'a> {
    /// A frame's payload, and the offset behind the frame.
    Frame(&'a [u8], usize),
    /// The file ends here.
    End,
    /// The last frame, whose write did not finish.
    Torn,
    /// A frame that cannot be read, for this reason.
    Corrupt(&'static str),
}

/// Read what stands at `at`.
pub(crate) fn read_frame(bytes: &[u8], at: usize) -> Found<'_> {
    let rest = &bytes[at..];
    if rest.is_empty() {
        return Found::End;
    }
    if rest.len() < HEADER {
        return Found::Torn;
    }
    let Some(length) = length(rest) else { return defect(bytes, at, "no frame begins here") };
    let end = HEADER + length + END.len();
    if rest.len() < end {
        return Found::Torn;
    }
    let payload = &rest[HEADER..HEADER + length];
    if rest[HEADER + length..end] != END {
        return defect(bytes, at, "the frame has no end mark");
    }
    if crc32fast::hash(payload) != number(&rest[12..16]) {
        return defect(bytes, at, "the checksum does not match");
    }
    Found::Frame(payload, at + end)
}

/// The payload of a file that is one frame. Such files are replaced as a whole, so that nothing
/// in them is ever torn.
pub(crate) fn only_frame(bytes: &[u8]) -> Result<&[u8], &'static str> {
    match read_frame(bytes, 0) {
        Found::Frame(payload, end) if end == bytes.len() => Ok(payload),
        Found::Frame(..) => Err("there are bytes behind the frame"),
        Found::End => Err("the file is empty"),
        Found::Torn => Err("the frame is incomplete"),
        Found::Corrupt(reason) => Err(reason),
    }
}

/// The payload's length, if a header is here.
fn length(rest: &[u8]) -> Option<usize> {
    let whole = rest.len() >= HEADER
        && rest[..4] == START
        && crc32fast::hash(&rest[4..8]) == number(&rest[8..12]);
    whole.then(|| number(&rest[4..8]) as usize)
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes.try_into().expect("four bytes"))
}

/// Tell a torn frame from a corrupted one. A frame that is followed by another was finished once.
fn defect<'a>(bytes: &'a [u8], at: usize, reason: &'static str) -> Found<'a> {
    let followed = (at + 1..bytes.len()).any(|later| length(&bytes[later..]).is_some());
    if !followed && has_unwritten_sector(bytes, at) { Found::Torn } else { Found::Corrupt(reason) }
}

/// Whether a part of the file behind `from` that lies in one sector is all zeros.
fn has_unwritten_sector(bytes: &[u8], from: usize) -> bool {
    let mut start = from;
    while start < bytes.len() {
        let end = bytes.len().min((start / SECTOR + 1) * SECTOR);
        if bytes[start..end].iter().all(|byte| *byte == 0) {
            return true;
        }
        start = end;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two frames, the second over several sectors; and where the second begins.
    fn file() -> (Vec<u8>, usize) {
        let mut bytes = frame(b"first");
        let second = bytes.len();
        write_frame(&(0..2000u32).map(|n| n as u8 | 1).collect::<Vec<_>>(), &mut bytes);
        (bytes, second)
    }

    #[test]
    fn frames_are_read_as_written() {
        let (bytes, second) = file();
        assert_eq!(read_frame(&bytes, 0), Found::Frame(b"first", second));
        assert!(matches!(read_frame(&bytes, second), Found::Frame(payload, end)
            if payload.len() == 2000 && end == bytes.len()));
        assert_eq!(read_frame(&bytes, bytes.len()), Found::End);
    }

    #[test]
    fn a_last_frame_that_is_cut_anywhere_is_torn() {
        let (bytes, second) = file();
        for length in second + 1..bytes.len() {
            assert_eq!(read_frame(&bytes[..length], second), Found::Torn, "{length}");
        }
    }

    #[test]
    fn a_last_frame_with_any_sectors_unwritten_is_torn() {
        let (bytes, second) = file();
        let last = bytes.len().div_ceil(SECTOR);
        for sectors in 1u32..1 << last {
            let mut torn = bytes.clone();
            for sector in (0..last).filter(|sector| sectors & 1 << sector != 0) {
                let end = torn.len().min((sector + 1) * SECTOR);
                torn[second.max(sector * SECTOR)..end].fill(0);
            }
            assert_eq!(read_frame(&torn, second), Found::Torn, "{sectors:b}");
        }
    }

    #[test]
    fn a_changed_bit_anywhere_is_corruption() {
        let (bytes, second) = file();
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let at = if bit / 8 < second { 0 } else { second };
            assert!(matches!(read_frame(&changed, at), Found::Corrupt(_)), "bit {bit}");
        }
    }

    #[test]
    fn a_frame_with_another_behind_it_is_never_torn() {
        let (mut bytes, second) = file();
        let third = bytes.len();
        write_frame(b"third", &mut bytes);
        bytes[second..third].fill(0);
        assert!(matches!(read_frame(&bytes, second), Found::Corrupt(_)));
    }
}
