//! Only this machine's browsers, and only pages of this server, may ask it anything.

use axum::http::{HeaderMap, HeaderValue, header};

/// What a page of this server may load: nothing from elsewhere, and no inline script or style.
const POLICY: &str = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; \
    img-src 'self' data: blob:; connect-src 'self'; worker-src 'self'; base-uri 'none'; \
    form-action 'none'; frame-ancestors 'self'";

/// The headers of every response.
pub(super) fn headers(kind: &'static str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-cache"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers
}

/// Why a request is refused, if it is: a name that leads here by a trick of DNS has another Host,
/// and a page of another server has another Origin.
pub(super) fn refusal(headers: &HeaderMap, port: u16) -> Option<&'static str> {
    let names = ["127.0.0.1", "localhost", "[::1]"].map(|name| format!("{name}:{port}"));
    let text = |name| headers.get(name).map(|value: &HeaderValue| value.to_str().unwrap_or("?"));
    let host = text(header::HOST).unwrap_or("");
    if !names.iter().any(|name| name == host) {
        return Some("unknown Host: open the address that `mutua lab` prints");
    }
    match text(header::ORIGIN) {
        Some(origin) if origin != format!("http://{host}") => {
            Some("another Origin: only pages of this server may send queries")
        }
        Some(_) | None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&'static str, &'static str)]) -> Option<&'static str> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.insert(*name, HeaderValue::from_static(value));
        }
        refusal(&headers, 8080)
    }

    #[test]
    fn only_loopback_names_and_their_own_pages_are_served() {
        assert_eq!(of(&[("host", "127.0.0.1:8080")]), None);
        assert_eq!(of(&[("host", "localhost:8080"), ("origin", "http://localhost:8080")]), None);
        assert!(of(&[]).is_some());
        assert!(of(&[("host", "evil.example:8080")]).is_some());
        assert!(of(&[("host", "127.0.0.1:80")]).is_some());
        let other = [("host", "127.0.0.1:8080"), ("origin", "http://evil.example")];
        assert!(of(&other).is_some());
        assert!(of(&[("host", "127.0.0.1:8080"), ("origin", "null")]).is_some());
    }
}
