//! The names by which plain HTTP reaches this node.

use std::net::IpAddr;

use mutua_node::Config;

/// The host names of a node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hosts(Vec<String>);

impl Hosts {
    /// The name of this machine, and those in the addresses of the members.
    pub(crate) fn of(config: &Config) -> Self {
        let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let members = config.members.iter().map(|member| without_port(&member.address).to_owned());
        Self(std::iter::once(machine).chain(members).filter(|name| !name.is_empty()).collect())
    }

    /// Whether a `Host` is this node: one of its names, `localhost`, or an address, which a page
    /// cannot have as the name of its own origin.
    pub(crate) fn contains(&self, host: &str) -> bool {
        let name = without_port(host);
        let address = name.trim_start_matches('[').trim_end_matches(']');
        address.parse::<IpAddr>().is_ok()
            || name.eq_ignore_ascii_case("localhost")
            || self.0.iter().any(|known| known.eq_ignore_ascii_case(name))
    }
}

/// An address of IPv6 with a port is in brackets.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port))
            if port.bytes().all(|byte| byte.is_ascii_digit())
                && (!name.contains(':') || name.ends_with(']')) =>
        {
            name
        }
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::Hosts;

    #[test]
    fn a_node_is_known_by_addresses_localhost_and_its_own_names() {
        let hosts = Hosts(vec!["db1.internal".to_owned()]);
        for own in [
            "127.0.0.1:2379",
            "10.0.0.1",
            "[::1]:2379",
            "::1",
            "localhost",
            "LocalHost:2379",
            "db1.internal:2379",
            "DB1.internal",
        ] {
            assert!(hosts.contains(own), "{own}");
        }
        for other in
            ["", ":2379", "evil.example", "127.0.0.1.evil.example:80", "localhost.evil.example"]
        {
            assert!(!hosts.contains(other), "{other}");
        }
    }
}
