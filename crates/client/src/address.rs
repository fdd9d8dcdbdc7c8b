//! Endpoints as people write them.

use std::path::{Path, PathBuf};

/// The most bytes that the path of a socket can have.
const MAX_PATH: usize = 107;

/// Why there is no connection. Nothing was sent.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The endpoint is invalid.
    #[error("{0}")]
    Invalid(String),
    /// This user may not connect. Trying again does not help.
    #[error("{0}")]
    Denied(String),
    /// No server accepts connections there now.
    #[error("{0}")]
    Unreachable(String),
}

/// The path of a socket is too long for the system.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the path of a socket has {MAX_PATH} bytes at most, not {length}")]
pub struct PathTooLong {
    length: usize,
}

/// Reads `unix:PATH`, `HOST:PORT`, `http://HOST:PORT` or `https://HOST:PORT`. The result means the
/// same server in every directory: its path is absolute.
///
/// # Errors
///
/// [`ConnectError::Invalid`].
pub fn normal(endpoint: &str) -> Result<String, ConnectError> {
    let invalid = |why: &str| {
        let text = format!(
            "invalid endpoint `{endpoint}`: {why}; use unix:PATH, HOST:PORT or https://HOST:PORT"
        );
        ConnectError::Invalid(text)
    };
    if let Some(path) = endpoint.strip_prefix("unix:") {
        if path.is_empty() {
            return Err(invalid("the path is empty"));
        }
        let path = std::path::absolute(PathBuf::from(path))
            .map_err(|error| invalid(&format!("the current directory is unknown: {error}")))?;
        fits(&path).map_err(|error| invalid(&error.to_string()))?;
        return Ok(format!("unix:{}", path.display()));
    }
    let (scheme, address) = match endpoint.split_once("://") {
        None => ("http", endpoint),
        Some((scheme @ ("http" | "https"), address)) => (scheme, address.trim_end_matches('/')),
        Some((scheme, _)) => return Err(invalid(&format!("{scheme} is not supported"))),
    };
    let (host, port) = address.rsplit_once(':').ok_or_else(|| invalid("the port is missing"))?;
    if !port.parse::<u16>().is_ok_and(|port| port > 0) {
        return Err(invalid(&format!("invalid port `{port}`")));
    }
    let bracketed = host.starts_with('[') && host.ends_with(']');
    if host.is_empty() || (host.contains(':') && !bracketed) {
        return Err(invalid(&format!("invalid host `{host}`")));
    }
    Ok(format!("{scheme}://{address}"))
}

/// Checks that a socket can have this path.
///
/// # Errors
///
/// See [`PathTooLong`].
pub fn fits(path: &Path) -> Result<(), PathTooLong> {
    match path.as_os_str().len() {
        0..=MAX_PATH => Ok(()),
        length => Err(PathTooLong { length }),
    }
}

#[cfg(test)]
mod tests {
    use super::normal;

    #[test]
    fn an_endpoint_is_the_same_however_it_is_written() {
        for (text, expected) in [
            ("127.0.0.1:2379", "http://127.0.0.1:2379"),
            ("http://localhost:2379/", "http://localhost:2379"),
            ("[::1]:9", "http://[::1]:9"),
            ("https://localhost:2379/", "https://localhost:2379"),
            ("unix:/tmp/./s", "unix:/tmp/s"),
            ("unix:///tmp/s", "unix:/tmp/s"),
        ] {
            assert_eq!(normal(text).expect(text), expected);
        }
        let relative = normal("unix:s").expect("a path");
        assert!(relative.starts_with("unix:/") && relative.ends_with("/s"), "{relative}");
    }

    #[test]
    fn an_invalid_endpoint_is_refused_with_the_reason() {
        let long = format!("unix:/{}", "a".repeat(107));
        for (text, why) in [
            ("", "port is missing"),
            ("host", "port is missing"),
            ("host:0", "invalid port `0`"),
            ("host:http", "invalid port `http`"),
            (":2379", "invalid host ``"),
            ("::bad", "invalid port `bad`"),
            ("::1:2379", "invalid host `::1`"),
            ("https://host", "port is missing"),
            ("tcp://host:2379", "tcp is not supported"),
            ("unix:", "empty"),
            (&long, "107 bytes at most, not 108"),
        ] {
            let refused = normal(text).expect_err(text).to_string();
            assert!(refused.contains(why), "{refused}");
        }
    }
}
