//! Where a server is, as people write it.

use std::path::{Path, PathBuf};

/// A socket's path has room for so many bytes.
pub const MAX_PATH: usize = 107;

/// Why there is no connection.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// What was named can be no server.
    #[error("{0}")]
    NoEndpoint(String),
    /// This user may not, now or later.
    #[error("{0}")]
    Denied(String),
    /// Nobody is there now.
    #[error("{0}")]
    Unreachable(String),
}

/// Reads `unix:PATH`, `HOST:PORT` or `http://HOST:PORT`, and writes it in the same way wherever it
/// is read again: a path is absolute.
///
/// # Errors
///
/// If that can be no server.
pub fn normal(endpoint: &str) -> Result<String, ConnectError> {
    let none = |why: &str| {
        let right = "unix:PATH and HOST:PORT are";
        ConnectError::NoEndpoint(format!("`{endpoint}` is no endpoint: {why}; {right}"))
    };
    if let Some(path) = endpoint.strip_prefix("unix:") {
        if path.is_empty() {
            return Err(none("the path is empty"));
        }
        let path = std::path::absolute(PathBuf::from(path))
            .map_err(|error| none(&format!("the current directory is unknown: {error}")))?;
        fits(&path).map_err(|why| none(&why))?;
        return Ok(format!("unix:{}", path.display()));
    }
    let address = match endpoint.split_once("://") {
        None => endpoint,
        Some(("http", address)) => address.trim_end_matches('/'),
        Some(("https", _)) => return Err(none("there is no TLS here")),
        Some((scheme, _)) => return Err(none(&format!("{scheme} is not spoken here"))),
    };
    let (host, port) = address.rsplit_once(':').ok_or_else(|| none("it has no port"))?;
    if !port.parse::<u16>().is_ok_and(|port| port > 0) {
        return Err(none(&format!("`{port}` is no port")));
    }
    let bracketed = host.starts_with('[') && host.ends_with(']');
    if host.is_empty() || (host.contains(':') && !bracketed) {
        return Err(none(&format!("`{host}` is no host")));
    }
    Ok(format!("http://{address}"))
}

/// Whether there can be a socket of this path.
///
/// # Errors
///
/// A text that says why not.
pub fn fits(path: &Path) -> Result<(), String> {
    match path.as_os_str().len() {
        0..=MAX_PATH => Ok(()),
        length => Err(format!("the path of a socket has {MAX_PATH} bytes at most, not {length}")),
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
            ("unix:/tmp/./s", "unix:/tmp/s"),
            ("unix:///tmp/s", "unix:/tmp/s"),
        ] {
            assert_eq!(normal(text).expect(text), expected);
        }
        let relative = normal("unix:s").expect("a path");
        assert!(relative.starts_with("unix:/") && relative.ends_with("/s"), "{relative}");
    }

    #[test]
    fn what_can_be_no_server_is_refused_with_the_reason() {
        let long = format!("unix:/{}", "a".repeat(107));
        for (text, why) in [
            ("", "no port"),
            ("host", "no port"),
            ("host:0", "`0` is no port"),
            ("host:http", "`http` is no port"),
            (":2379", "no host"),
            ("::bad", "is no port"),
            ("::1:2379", "no host"),
            ("https://host:2379", "no TLS"),
            ("tcp://host:2379", "tcp is not spoken"),
            ("unix:", "empty"),
            (&long, "107 bytes at most, not 108"),
        ] {
            let refused = normal(text).expect_err(text).to_string();
            assert!(refused.contains(why), "{refused}");
        }
    }
}
