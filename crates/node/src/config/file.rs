//! The configuration as a file: TOML, with every error at its line.

use std::{
    collections::BTreeMap,
    fs,
    net::SocketAddr,
    ops::Range,
    path::{Path, PathBuf},
    time::Duration,
};

use mutua_algorithms::{NodeId, Topology};
use mutua_protocol::{
    DEFAULT_ALGORITHM, Limits, Pattern, Rule,
    views::{Levels, Role},
};
use mutua_tls::TlsFiles;
use serde::Deserialize;
use toml::Spanned;

use super::{
    Config, ConfigError, ConfigProblem, LONGEST_LEASE, LogLevel, MemberConfig, Part, VIEW_LEASE,
    access::{AccessRule, Action, ClientPattern},
    durations::FileDuration,
    keys::unknown_key,
    overrides,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    cluster: String,
    node: Spanned<String>,
    #[serde(default)]
    clustered: bool,
    listen: Option<Spanned<String>>,
    data: Option<String>,
    #[serde(default)]
    insecure: bool,
    metrics_listen: Option<Spanned<Scalar>>,
    #[serde(default)]
    metrics_names: bool,
    audit: Option<PathBuf>,
    log_level: Option<Spanned<String>>,
    socket: Option<PathBuf>,
    #[serde(default)]
    members: Vec<Spanned<FileMember>>,
    #[serde(default)]
    pub(super) locks: Vec<Spanned<FileLock>>,
    #[serde(default)]
    access: Vec<FileAccess>,
    #[serde(default)]
    limits: FileLimits,
    tls: Option<FileTls>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileMember {
    name: String,
    address: Spanned<String>,
    role: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileLock {
    names: String,
    algorithm: Option<String>,
    #[serde(default)]
    with: BTreeMap<String, Scalar>,
    topology: Option<Spanned<FileTopology>>,
    quorums: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileAccess {
    clients: Spanned<Words>,
    names: Option<String>,
    allow: Spanned<Words>,
}

/// One text or a list of them.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a text, or a list of texts")]
enum Words {
    One(String),
    Many(Vec<String>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileTls {
    ca: PathBuf,
    cert: PathBuf,
    key: PathBuf,
    revoked: Option<PathBuf>,
}

/// A setting's value: `k = 5` and `k = "5"` are the same.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a text, or a whole number")]
enum Scalar {
    Text(String),
    Number(u32),
}

impl Scalar {
    fn into_text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Number(number) => number.to_string(),
        }
    }
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a text, or a list of edges [[0, 1], ...]")]
enum FileTopology {
    Shape(String),
    Edges(Vec<(u32, u32)>),
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileLimits {
    run: Option<Spanned<u32>>,
    at_once: Option<Spanned<u32>>,
    backlog: Option<Spanned<usize>>,
    lost_after: Option<Spanned<FileDuration>>,
    heartbeat: Option<Spanned<FileDuration>>,
    pace_wanted: Option<Spanned<FileDuration>>,
    pace_idle: Option<Spanned<FileDuration>>,
    pace_rest: Option<Spanned<FileDuration>>,
    idle_after: Option<Spanned<FileDuration>>,
    view_lease: Option<Spanned<FileDuration>>,
    longest_lease: Option<Spanned<FileDuration>>,
    highest_level: Option<u16>,
}

/// A problem and where in the text it is.
pub(super) struct Located(pub(super) Range<usize>, pub(super) ConfigProblem);

impl Config {
    /// Reads a file. Relative paths in it are beside the file. Variables `MUTUA_NODE_KEY` of the
    /// environment override its keys; one that names no key is an error.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        let path = path.as_ref();
        let text = fs::read_to_string(path).map_err(|error| ConfigError {
            at: Some(path.display().to_string()),
            problem: error.into(),
        })?;
        let variables = overrides::of_environment()?;
        let mut config = Self::parse_with(&text, &path.display().to_string(), &variables)?;
        config.file = Some(path.to_owned());
        if let Some(beside) = path.parent() {
            config.data = beside.join(&config.data);
            config.audit = config.audit.map(|path| beside.join(path));
            config.socket = config.socket.map(|path| beside.join(path));
            config.tls = config.tls.map(|files| files.beside(beside));
        }
        Ok(config)
    }

    /// Reads the text of a file; errors name the file as `name`.
    pub fn parse(text: &str, name: &str) -> Result<Self, ConfigError> {
        let file: File = toml::from_str(text).map_err(|error| syntax(text, name, &error))?;
        let at = |span: Range<usize>, problem| located(text, name, span, problem);
        let spans = Spans::of(&file, text);
        let config = file.into_config(name).map_err(|Located(span, problem)| at(span, problem))?;
        match config.check_parts() {
            Ok(_) => Ok(config),
            Err((part, problem)) => Err(at(spans.of_part(part), problem)),
        }
    }
}

pub(super) fn located(
    text: &str,
    name: &str,
    span: Range<usize>,
    problem: ConfigProblem,
) -> ConfigError {
    let line = 1 + text[..span.start.min(text.len())].matches('\n').count();
    ConfigError { at: Some(format!("{name}:{line}")), problem }
}

fn syntax(text: &str, name: &str, error: &toml::de::Error) -> ConfigError {
    let message = error.message().trim().replace('\n', " ");
    // The parser names the type that the value is kept in.
    let numbers = ["expected u16", "expected u32", "expected usize"];
    let message = numbers.iter().fold(message, |message, number| {
        message.replace(number, "expected a whole number that is not negative")
    });
    let problem = ConfigProblem::Syntax(unknown_key(&message).unwrap_or(message));
    located(text, name, error.span().unwrap_or(0..0), problem)
}

/// The text of a file as a table, whatever its keys are.
pub(super) fn parse_table(text: &str, name: &str) -> Result<toml::Table, ConfigError> {
    toml::from_str(text).map_err(|error| syntax(text, name, &error))
}

/// Where the parts are in the text.
struct Spans {
    node: Range<usize>,
    members: Vec<Range<usize>>,
    locks: Vec<Range<usize>>,
    view_lease: Option<Range<usize>>,
    end: usize,
}

impl Spans {
    fn of(file: &File, text: &str) -> Self {
        Self {
            node: file.node.span(),
            members: file.members.iter().map(Spanned::span).collect(),
            locks: file.locks.iter().map(Spanned::span).collect(),
            view_lease: file.limits.view_lease.as_ref().map(Spanned::span),
            end: text.len(),
        }
    }

    fn of_part(&self, part: Part) -> Range<usize> {
        let end = self.end..self.end;
        match part {
            Part::Node => self.node.clone(),
            Part::Members => end,
            Part::Member(index) => self.members.get(index).cloned().unwrap_or(end),
            Part::Lock(index) => self.locks.get(index).cloned().unwrap_or(end),
            Part::ViewLease => self.view_lease.clone().unwrap_or(end),
        }
    }
}

impl File {
    fn into_config(self, name: &str) -> Result<Config, Located> {
        let members = self.members.into_iter().map(|member| {
            let member = member.into_inner();
            let role = member.role.map(role).transpose()?;
            Ok(MemberConfig { name: member.name, address: address(member.address)?, role })
        });
        let node = self.node.into_inner();
        let data = self.data.unwrap_or_else(|| {
            // Two nodes whose files are in one directory have different data directories.
            let stem = Path::new(name).file_stem().map_or("mutua".into(), |stem| stem.to_owned());
            format!("{}-{node}.data", stem.to_string_lossy())
        });
        Ok(Config {
            cluster: self.cluster,
            members: members.collect::<Result<_, _>>()?,
            listen: self.listen.map(address).transpose()?,
            data: data.into(),
            socket: self.socket,
            access: self.access.into_iter().map(access).collect::<Result<_, _>>()?,
            rules: self.locks.into_iter().map(rule).collect::<Result<_, _>>()?,
            view_lease: lease(self.limits.view_lease.as_ref(), VIEW_LEASE)?,
            highest_level: self.limits.highest_level.unwrap_or(Levels::HERE.newest),
            longest_lease: lease(self.limits.longest_lease.as_ref(), LONGEST_LEASE)?,
            limits: self.limits.limits()?,
            tls: self.tls.map(|tls| TlsFiles {
                ca: tls.ca,
                certificate: tls.cert,
                key: tls.key,
                revoked: tls.revoked,
            }),
            insecure: self.insecure,
            clustered: self.clustered,
            metrics_listen: self.metrics_listen.map(metrics_address).transpose()?,
            metrics_names: self.metrics_names,
            audit: self.audit,
            log_level: self.log_level.map(log_level).transpose()?.unwrap_or_default(),
            trace: None,
            file: None,
            node,
        })
    }
}

fn log_level(text: Spanned<String>) -> Result<LogLevel, Located> {
    match text.get_ref().as_str() {
        "info" => Ok(LogLevel::Info),
        "warn" => Ok(LogLevel::Warn),
        "error" => Ok(LogLevel::Error),
        _ => Err(Located(text.span(), ConfigProblem::LogLevel(text.into_inner()))),
    }
}

/// A host and a port.
fn address(text: Spanned<String>) -> Result<String, Located> {
    let is_valid = |(host, port): (&str, &str)| !host.is_empty() && port.parse::<u16>().is_ok();
    if !text.get_ref().rsplit_once(':').is_some_and(is_valid) {
        return Err(Located(text.span(), ConfigProblem::Address(text.into_inner())));
    }
    Ok(text.into_inner())
}

fn role(role: Spanned<String>) -> Result<Role, Located> {
    match role.get_ref().as_str() {
        "voter" => Ok(Role::Voter),
        "follower" => Ok(Role::Follower),
        "witness" => Ok(Role::Witness),
        other => {
            let problem = ConfigProblem::Role(other.to_owned());
            Err(Located(role.span(), problem))
        }
    }
}

fn access(rule: FileAccess) -> Result<AccessRule, Located> {
    let clients = words(rule.clients, |text| {
        ClientPattern::of(text).ok_or_else(|| ConfigProblem::AccessClient(text.to_owned()))
    });
    let allow = words(rule.allow, |text| {
        Action::of(text).ok_or_else(|| ConfigProblem::AccessAction(text.to_owned()))
    });
    let (span, clients) = clients?;
    if clients.is_empty() {
        return Err(Located(span, ConfigProblem::NoClients));
    }
    let names = Pattern::new(rule.names.unwrap_or_else(|| "*".to_owned()));
    Ok(AccessRule { clients, names, allow: allow?.1 })
}

/// Reads each text of a value; an error is at the value.
fn words<T>(
    value: Spanned<Words>,
    read: impl Fn(&str) -> Result<T, ConfigProblem>,
) -> Result<(Range<usize>, Vec<T>), Located> {
    let span = value.span();
    let words = match value.into_inner() {
        Words::One(word) => vec![word],
        Words::Many(words) => words,
    };
    let read = words.iter().map(|word| read(word)).collect::<Result<_, _>>();
    read.map(|read| (span.clone(), read)).map_err(|problem| Located(span, problem))
}

/// A port is on loopback.
fn metrics_address(text: Spanned<Scalar>) -> Result<SocketAddr, Located> {
    let span = text.span();
    let text = text.into_inner().into_text();
    let address = match text.parse::<u16>() {
        Ok(port) => Some(SocketAddr::from(([127, 0, 0, 1], port))),
        Err(_) => text.parse().ok(),
    };
    address.ok_or(Located(span, ConfigProblem::MetricsListen(text)))
}

pub(super) fn rule(lock: Spanned<FileLock>) -> Result<Rule, Located> {
    let lock = lock.into_inner();
    let algorithm = lock.algorithm.unwrap_or_else(|| DEFAULT_ALGORITHM.to_owned());
    let mut rule = Rule::new(lock.names, algorithm);
    for (key, value) in lock.with {
        rule = rule.with(&key, &value.into_text());
    }
    if let Some(topology) = lock.topology {
        let span = topology.span();
        rule.topology = shape(topology.into_inner()).map_err(|problem| Located(span, problem))?;
    }
    if let Some(quorums) = lock.quorums {
        let kind = quorums.get_ref().parse();
        rule.quorums =
            kind.map_err(|error| Located(quorums.span(), ConfigProblem::Quorums(error)))?;
    }
    Ok(rule)
}

fn shape(topology: FileTopology) -> Result<Topology, ConfigProblem> {
    match topology {
        FileTopology::Edges(edges) => {
            let edge = |(one, other)| (NodeId(one), NodeId(other));
            Ok(Topology::Edges(edges.into_iter().map(edge).collect()))
        }
        FileTopology::Shape(text) => text.parse().map_err(ConfigProblem::Topology),
    }
}

impl FileLimits {
    fn limits(self) -> Result<Limits, Located> {
        let mut limits = Limits::default();
        let beats = self.lost_after.as_ref().or(self.heartbeat.as_ref()).map(Spanned::span);
        for (value, limit, key) in
            [(self.run, &mut limits.run, "run"), (self.at_once, &mut limits.at_once, "at_once")]
        {
            let Some(value) = value else { continue };
            *limit = *value.get_ref();
            if *limit == 0 {
                return Err(Located(value.span(), ConfigProblem::ZeroLimit { key }));
            }
        }
        if let Some(backlog) = self.backlog {
            limits.backlog = *backlog.get_ref();
            if limits.backlog == 0 {
                let problem = ConfigProblem::ZeroLimit { key: "backlog" };
                return Err(Located(backlog.span(), problem));
            }
        }
        for (value, limit) in [
            (self.lost_after, &mut limits.lost_after),
            (self.heartbeat, &mut limits.heartbeat),
            (self.pace_wanted, &mut limits.pace_wanted),
            (self.pace_idle, &mut limits.pace_idle),
            (self.pace_rest, &mut limits.pace_rest),
            (self.idle_after, &mut limits.idle_after),
        ] {
            if let Some(value) = value {
                *limit =
                    value.get_ref().read().map_err(|problem| Located(value.span(), problem))?;
            }
        }
        if limits.heartbeat >= limits.lost_after {
            let problem = ConfigProblem::LostBeforeHeartbeat;
            return Err(Located(beats.unwrap_or(0..0), problem));
        }
        Ok(limits)
    }
}

fn lease(value: Option<&Spanned<FileDuration>>, default: Duration) -> Result<Duration, Located> {
    let Some(value) = value else { return Ok(default) };
    value.get_ref().read().map_err(|problem| Located(value.span(), problem))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
cluster = "demo"
node = "b"

[[members]]
name = "a"
address = "127.0.0.1:7001"

[[members]]
name = "b"
address = "127.0.0.1:7002"

[[locks]]
names = "votes/*"
algorithm = "maekawa"
with = { resolution = "reject" }

[limits]
lost_after = "3s"
"#;

    fn error(old: &str, new: &str) -> String {
        assert!(GOOD.contains(old), "{old}");
        let text = GOOD.replacen(old, new, 1);
        Config::parse(&text, "mutua.toml").expect_err("an error").to_string()
    }

    #[test]
    fn a_valid_file_is_read() {
        let config = Config::parse(GOOD, "mutua.toml").expect("a good file");
        assert_eq!(config.members[1].address, "127.0.0.1:7002");
        assert_eq!(config.limits.lost_after, Duration::from_secs(3));
        assert_eq!(config.rules[0].algorithm, "maekawa");
        assert_eq!(config.data.to_str(), Some("mutua-b.data"));
    }

    #[test]
    fn a_duration_is_a_number_of_seconds_or_text_with_a_unit() {
        let text = GOOD.replace(
            "lost_after = \"3s\"",
            "lost_after = 3\nview_lease = 1\nlongest_lease = 90.5\nheartbeat = 0.25\n\
             pace_wanted = \"2ms\"\npace_idle = 1e-2\npace_rest = \"0.5\"\nidle_after = \"5m\"",
        );
        let config = Config::parse(&text, "mutua.toml").expect("valid");
        assert_eq!(config.view_lease, Duration::from_secs(1));
        assert_eq!(config.longest_lease, Duration::from_millis(90_500));
        let limits = config.limits;
        let found = [limits.lost_after, limits.heartbeat, limits.pace_wanted, limits.pace_idle];
        assert_eq!(found, [3000, 250, 2, 10].map(Duration::from_millis));
        let found = [limits.pace_rest, limits.idle_after];
        assert_eq!(found, [500, 300_000].map(Duration::from_millis));
    }

    #[test]
    fn a_value_of_another_type_is_refused_in_words() {
        for (line, right) in [
            ("run = \"many\"", "expected a whole number that is not negative"),
            ("run = -1", "expected a whole number that is not negative"),
            ("[[access]]\nclients = 5\nallow = []", "expected a text, or a list of texts"),
            ("[[locks]]\nnames = \"x\"\ntopology = 5", "or a list of edges [[0, 1], ...]"),
            ("[[locks]]\nnames = \"x\"\nwith = { k = 1.5 }", "expected a text, or a whole number"),
        ] {
            let text = error("lost_after = \"3s\"", line);
            assert!(text.ends_with(right), "{text}");
        }
        let text = error("127.0.0.1:7002", ":7002");
        assert!(text.ends_with("invalid address `:7002`: use HOST:PORT"), "{text}");
        let text = error("name = \"a\"", "name = \"\"");
        assert!(text.ends_with(":5: the name of a member is empty"), "{text}");
    }

    #[test]
    fn an_invalid_duration_is_refused_with_what_to_write() {
        let refused = |value: &str| {
            let text = error("\"3s\"", value);
            text.strip_prefix("mutua.toml:19: ").expect("it names the line").to_owned()
        };
        for (value, shown) in [("\"soon\"", "soon"), ("-1", "-1"), ("nan", "NaN")] {
            let right = format!("invalid duration `{shown}`: use 5, 0.5, 200ms, 30s, 5m or 1h");
            assert_eq!(refused(value), right);
        }
        for (value, shown) in [("\"0s\"", "0s"), ("0", "0")] {
            let right = format!("invalid duration `{shown}`: it must be more than 0");
            assert_eq!(refused(value), right);
        }
        let text = refused("true");
        let right = "expected a number of seconds, or text with a unit, such as \"500ms\"";
        assert!(text.ends_with(right), "{text}");
    }

    #[test]
    fn errors_name_the_line_and_what_to_do() {
        let text = error("node = \"b\"", "node = \"c\"");
        assert_eq!(text, "mutua.toml:3: `c` is none of the members: a, b");
        let text = error("name = \"b\"", "name = \"a\"");
        assert!(text.starts_with("mutua.toml:9: two members have the name `a`"), "{text}");
        let text = error("127.0.0.1:7002", "127.0.0.1");
        assert!(
            text.starts_with("mutua.toml:11: invalid address `127.0.0.1`: use HOST:PORT"),
            "{text}"
        );
        let text = error("algorithm = \"maekawa\"", "algorithm = \"bakery-naive\"");
        assert!(text.starts_with("mutua.toml:13: bakery-naive is a negative control"), "{text}");
        let text = error(
            "algorithm = \"maekawa\"\nwith = { resolution = \"reject\" }",
            "algorithm = \"raymond\"\nquorums = \"majority\"",
        );
        let right = "raymond uses no quorums: `quorums` applies to maekawa";
        assert!(text.ends_with(right), "{text}");
        let text = error("[limits]", "quorums = \"grids\"\n[limits]");
        let unknown = "grids".parse::<mutua_algorithms::QuorumKind>().expect_err("unknown");
        assert_eq!(text, format!("mutua.toml:18: {unknown}"));
        let text = error("lost_after = \"3s\"", "heartbeat = \"3s\"");
        assert!(text.starts_with("mutua.toml:19: lost_after must be longer"), "{text}");
        let text = error("lost_after = \"3s\"", "backlog = 0");
        assert!(text.starts_with("mutua.toml:19: invalid backlog 0"), "{text}");
        let text = error("lost_after = \"3s\"", "at_once = 0");
        assert!(text.starts_with("mutua.toml:19: invalid at_once 0"), "{text}");
        let text = error("cluster =", "clutser =");
        assert!(text.starts_with("mutua.toml:2: ") && text.contains("clutser"), "{text}");
        let text = error("node = \"b\"", "node = \"b\"\nmetrics_listen = \"here\"");
        assert!(text.starts_with("mutua.toml:4: invalid metrics_listen `here`"), "{text}");
        let text = error("node = \"b\"", "node = \"b\"\nlog_level = \"loud\"");
        assert_eq!(text, "mutua.toml:4: invalid log_level `loud`: use info, warn or error");
        let rule = |clients: &str, allow: &str| {
            error(
                "[limits]",
                &format!("[[access]]\nclients = {clients}\nallow = {allow}\n[limits]"),
            )
        };
        let text = rule("\"deploy\"", "\"list\"");
        let right = "use *, user:NAME, group:NAME or cert:NAME";
        assert_eq!(text, format!("mutua.toml:19: invalid client `deploy`: {right}"));
        let text = rule("[]", "\"list\"");
        assert_eq!(text, "mutua.toml:19: a rule for access needs at least one client");
        let text = rule("\"*\"", "[\"list\", \"steal\"]");
        let right = "use acquire, list or break";
        assert_eq!(text, format!("mutua.toml:20: invalid action `steal`: {right}"));
        let text = error("[limits]", "[limits");
        assert!(text.starts_with("mutua.toml:18: "), "{text}");
    }
}
