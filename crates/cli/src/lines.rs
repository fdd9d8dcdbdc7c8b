//! Files that people write by hand: a thing a line, with remarks behind `#`.

/// The lines that say something, without their remarks, with the numbers that an editor shows.
pub(crate) fn said(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or("").trim());
    (1..).zip(lines).filter(|(_, line)| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remarks_and_empty_lines_say_nothing_but_count() {
        let text = "# head\n\n0 1 # an edge\n   \n 1 2\n";
        assert_eq!(said(text).collect::<Vec<_>>(), [(3, "0 1"), (5, "1 2")]);
    }
}
