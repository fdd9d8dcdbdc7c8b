//! The keys of a configuration file: the one source of documents, examples and suggestions.

/// A key of a configuration file.
#[derive(Clone, Copy, Debug)]
pub struct ConfigKey {
    /// The table that it is in, as it is written; empty for the top of the file.
    pub table: &'static str,
    /// Its name.
    pub name: &'static str,
    /// The type of its value.
    pub kind: &'static str,
    /// Its default.
    pub default: KeyDefault,
    /// A value for an example.
    pub example: &'static str,
    /// What it does, as a sentence.
    pub meaning: &'static str,
}

/// What holds if a key is not there.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum KeyDefault {
    /// The file is invalid, if it has the key's table.
    Required,
    /// This value, as it would be written.
    Value(&'static str),
    /// What these words say.
    Words(&'static str),
}

use KeyDefault::{Required, Value, Words};

const fn key(
    table: &'static str,
    name: &'static str,
    kind: &'static str,
    default: KeyDefault,
    example: &'static str,
    meaning: &'static str,
) -> ConfigKey {
    ConfigKey { table, name, kind, default, example, meaning }
}

/// All keys, table by table, in the order of an example.
#[rustfmt::skip]
pub const CONFIG_KEYS: &[ConfigKey] = &[
    key("", "cluster", "text", Required, "\"shop\"",
        "Name of the cluster. Nodes of different clusters refuse each other."),
    key("", "node", "text", Required, "\"a\"",
        "Name of the member that runs here."),
    key("", "clustered", "boolean", Words("true if several members are listed"), "true",
        "Needed where the node lists only itself and founds or joins a cluster: if its data \
         directory is lost, it waits to be replaced, and never runs alone. Without it such a node \
         is in no cluster: its locks exclude no other host, and --cluster refuses it."),
    key("", "data", "path", Words("FILE-NODE.data beside the file"), "\"/var/lib/mutua\"",
        "Data directory, which belongs to this node alone."),
    key("", "listen", "host:port", Words("this member's address"), "\"0.0.0.0:7001\"",
        "Where this node accepts the others, if a proxy, a router or a container forwards its \
         address to another one. Not for clients: for them there is `mutua node --listen`."),
    key("", "insecure", "boolean", Value("false"), "false",
        "Without [tls], accept addresses off this machine: any host that can reach them can take \
         and release locks."),
    key("", "metrics_listen", "port or address:port", Words("none"), "9464",
        "Serve /metrics, /health and /ready by HTTP; a port alone is on loopback."),
    key("", "metrics_names", "boolean", Value("false"), "true",
        "Name the locks that are held or waited for in /metrics, at most 1,000; all who can read \
         it see the names."),
    key("", "audit", "path", Words("none"), "\"/var/log/mutua/audit.jsonl\"",
        "Append a JSON line for each grant, release and loss at this node; `mutua node --audit` \
         does the same."),
    key("", "log_level", "text", Value("\"info\""), "\"warn\"",
        "Least level of what the node logs: info, warn or error; SIGHUP reads it again."),
    key("", "socket", "path", Words("locks.sock in the data directory"),
        "\"/run/mutua/locks.sock\"",
        "Unix socket for clients of this host. Where rules in [[access]] are for other users, they \
         need permission to enter its directory."),
    key("[[members]]", "name", "text", Required, "\"a\"",
        "Name of a member. The cluster is founded with this list, the same at every member; then \
         `mutua cluster` changes the members."),
    key("[[members]]", "address", "host:port", Required, "\"10.0.0.1:7001\"",
        "Where the member accepts the others."),
    key("[[members]]", "role", "text", Words("the first five vote, the others follow"), "\"voter\"",
        "voter: votes and holds locks; witness: votes only; follower: holds locks only."),
    key("[tls]", "ca", "path", Required, "\"tls/ca.crt\"",
        "Certificates of the CAs that sign members and clients, as PEM."),
    key("[tls]", "cert", "path", Required, "\"tls/a.crt\"",
        "This node's certificate, and intermediate ones behind it, as PEM."),
    key("[tls]", "key", "path", Required, "\"tls/a.key\"",
        "The key of the certificate, as PEM; not readable by every user."),
    key("[tls]", "revoked", "path", Words("none"), "\"tls/revoked.crl\"",
        "Lists of revoked certificates, as PEM."),
    key("[[locks]]", "names", "pattern", Required, "\"votes/*\"",
        "Names that the rule applies to; the first rule that matches counts. Decided when the \
         cluster is founded: those of the first member; then `mutua cluster rules` changes them."),
    key("[[locks]]", "algorithm", "text", Value("\"naimi-trehel\""), "\"maekawa\"",
        "Algorithm of these locks; `mutua algorithms` lists them."),
    key("[[locks]]", "with", "table", Value("{}"), "{ resolution = \"reject\" }",
        "Variant of the algorithm."),
    key("[[locks]]", "topology", "text or edges", Value("\"binary\""), "\"line\"",
        "Tree of raymond and neilsen-mizuno: line, star, binary, kary:K, or a list of edges."),
    key("[[locks]]", "quorums", "text", Value("\"grid\""), "\"grid\"",
        "Quorums of maekawa, and of sanders with sets = \"maekawa\": grid, filled-grid, plane, \
         majority or tree."),
    key("[[access]]", "clients", "text or list", Required, "[\"user:deploy\", \"group:ops\"]",
        "Clients that the rule applies to: user:NAME and group:NAME on the Unix socket, cert:NAME \
         over TCP with TLS, or * for all. A NAME may have * and ?."),
    key("[[access]]", "names", "pattern", Value("\"*\""), "\"deploy/*\"",
        "Names of locks that the rule applies to; the first rule that matches client and name \
         decides."),
    key("[[access]]", "allow", "text or list", Required, "[\"acquire\", \"list\"]",
        "What it allows: acquire, list (see holder and waiters), break (revoke it from another \
         client); [] allows nothing."),
    key("[limits]", "view_lease", "seconds or text", Value("\"1.5s\""), "\"1.5s\"",
        "How long a member goes on granting without a majority of the voters, and how long the \
         others wait before they go on without it; at least 300ms, the same at every member. The \
         engine's election timeouts are a fifth and two fifths of it."),
    key("[limits]", "longest_lease", "seconds or text", Value("\"10m\""), "\"10m\"",
        "Longest lease of a client; a longer request gets this much. It is waited for when all \
         members that keep records have crashed."),
    key("[limits]", "highest_level", "number", Value("1"), "1",
        "Hold the level of the protocol down at this member: while one member does, the cluster \
         sends nothing that its older version does not understand, and the upgrade can be undone."),
    key("[limits]", "lost_after", "seconds or text", Value("\"2s\""), "\"2s\"",
        "A connection on which nothing arrives for this long is closed."),
    key("[limits]", "heartbeat", "seconds or text", Value("\"500ms\""), "\"500ms\"",
        "Interval of messages on a quiet link; shorter than lost_after."),
    key("[limits]", "run", "number", Value("16"), "16",
        "Clients of one node in a row while another node waits."),
    key("[limits]", "at_once", "number", Value("128"), "128",
        "Grants in a row that need no message, before the node reads requests of other members."),
    key("[limits]", "backlog", "number", Value("100000"), "100000",
        "Unacknowledged messages on a link (or 64 MiB) before new requests are refused."),
    key("[limits]", "pace_wanted", "seconds or text", Value("\"1ms\""), "\"1ms\"",
        "Delay of a lazy message, which an algorithm sends without a request (an idle token, the \
         next read of a polled variable), while a client requests the lock."),
    key("[limits]", "pace_idle", "seconds or text", Value("\"10ms\""), "\"10ms\"",
        "Delay of a lazy message at first when no client requests the lock."),
    key("[limits]", "pace_rest", "seconds or text", Value("\"200ms\""), "\"200ms\"",
        "Delay of a lazy message after a longer time without requests."),
    key("[limits]", "idle_after", "seconds or text", Value("\"300s\""), "\"300s\"",
        "Idle cleanup: a name unused for this long is removed by all members."),
];

/// The message for an unknown key, from what the parser says; `None` if that is something else.
pub(super) fn unknown_key(message: &str) -> Option<String> {
    let (unknown, rest) = message.strip_prefix("unknown field `")?.split_once('`')?;
    let known: Vec<_> = rest.split('`').skip(1).step_by(2).collect();
    Some(match nearest(unknown, known.iter().copied()) {
        Some(nearest) => format!("unknown key `{unknown}`: did you mean `{nearest}`?"),
        None => format!("unknown key `{unknown}`; known here: {}", known.join(", ")),
    })
}

/// The name that was meant, if one is close to what was written.
pub(super) fn nearest<T: AsRef<str>>(
    unknown: &str,
    known: impl IntoIterator<Item = T>,
) -> Option<T> {
    let distance = |name: &T| strsim::damerau_levenshtein(unknown, name.as_ref());
    known.into_iter().min_by_key(distance).filter(|name| distance(name) <= 3)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::Config;

    const TOP: &str = "cluster = \"c\"\nnode = \"a\"\n";
    const MEMBERS: &str = "[[members]]\nname = \"a\"\naddress = \"127.0.0.1:1\"\n";

    /// The keys of each table.
    fn tables() -> BTreeMap<&'static str, Vec<&'static ConfigKey>> {
        let mut tables: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for key in CONFIG_KEYS {
            tables.entry(key.table).or_default().push(key);
        }
        tables
    }

    #[test]
    fn the_list_has_exactly_the_keys_that_a_file_may_have() {
        for (table, keys) in tables() {
            let text = format!("{TOP}{MEMBERS}{table}\nfar_from_every_key = 1\n");
            let text =
                if table.is_empty() { format!("far_from_every_key = 1\n{text}") } else { text };
            let error = Config::parse(&text, "f").expect_err("unknown").to_string();
            let known = error.split("known here: ").nth(1).unwrap_or_else(|| panic!("{error}"));
            let mut known: Vec<_> = known.split(", ").collect();
            let mut listed: Vec<_> = keys.iter().map(|key| key.name).collect();
            if table.is_empty() {
                // The tables themselves.
                listed.extend(["members", "locks", "access", "limits", "tls"]);
            }
            known.sort_unstable();
            listed.sort_unstable();
            assert_eq!(known, listed, "{table}");
        }
    }

    #[test]
    fn a_default_is_what_holds_without_the_key() {
        let without = Config::parse(&format!("{TOP}{MEMBERS}"), "f").expect("valid");
        for key in CONFIG_KEYS.iter().filter(|key| key.table == "[limits]") {
            let Value(value) = key.default else { panic!("{}", key.name) };
            let text = format!("{TOP}{MEMBERS}[limits]\n{} = {value}\n", key.name);
            let with = Config::parse(&text, "f").expect("valid");
            assert_eq!(format!("{:?}", with.limits), format!("{:?}", without.limits));
        }
        let rule = |more: &str| {
            let text = format!("{TOP}{MEMBERS}[[locks]]\nnames = \"*\"\n{more}\n");
            format!("{:?}", Config::parse(&text, "f").expect("valid").rules)
        };
        for key in CONFIG_KEYS.iter().filter(|key| key.table == "[[locks]]") {
            let Value(value) = key.default else { continue };
            assert_eq!(rule(&format!("{} = {value}", key.name)), rule(""), "{}", key.name);
        }
    }

    #[test]
    fn an_unknown_key_names_the_nearest_one() {
        let unknown = |text: &str| Config::parse(text, "f").expect_err("unknown").to_string();
        let text = format!("clutser = \"c\"\n{TOP}{MEMBERS}");
        assert_eq!(unknown(&text), "f:1: unknown key `clutser`: did you mean `cluster`?");
        let text = format!("{TOP}{MEMBERS}[tls]\nca = \"c\"\ncret = \"c\"\nkey = \"k\"\n");
        assert_eq!(unknown(&text), "f:8: unknown key `cret`: did you mean `cert`?");
    }
}
