//! The configuration as a file: TOML, with every complaint at its line.

use std::{collections::BTreeMap, fs, ops::Range, path::Path, time::Duration};

use mutua_algorithms::{NodeId, QuorumKind, Topology};
use mutua_brain::{DEFAULT_ALGORITHM, Limits, Rule};
use serde::Deserialize;
use toml::Spanned;

use super::{Config, ConfigError, MemberConfig, Part};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    cluster: String,
    node: Spanned<String>,
    data: Option<String>,
    #[serde(default)]
    insecure: bool,
    #[serde(default)]
    members: Vec<Spanned<FileMember>>,
    #[serde(default)]
    locks: Vec<Spanned<FileLock>>,
    #[serde(default)]
    limits: FileLimits,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileMember {
    name: String,
    address: Spanned<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileLock {
    names: String,
    algorithm: Option<String>,
    #[serde(default)]
    with: BTreeMap<String, Scalar>,
    topology: Option<Spanned<FileTopology>>,
    quorums: Option<Spanned<String>>,
}

/// A setting's value: `k = 5` is as good as `k = "5"`.
#[derive(Deserialize)]
#[serde(untagged)]
enum Scalar {
    Text(String),
    Number(u32),
}

#[derive(Deserialize)]
#[serde(untagged)]
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
    lost_after: Option<Spanned<String>>,
    heartbeat: Option<Spanned<String>>,
    pace_wanted: Option<Spanned<String>>,
    pace_idle: Option<Spanned<String>>,
    pace_rest: Option<Spanned<String>>,
    forget_after: Option<Spanned<String>>,
}

/// A complaint and where it belongs.
struct Complaint(Range<usize>, String);

impl Config {
    /// Reads a file. A relative directory in it is beside the file.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        let path = path.as_ref();
        let text = fs::read_to_string(path).map_err(|error| ConfigError {
            place: Some(path.display().to_string()),
            why: error.to_string(),
        })?;
        let mut config = Self::parse(&text, &path.display().to_string())?;
        if let Some(beside) = path.parent() {
            config.data = beside.join(&config.data);
        }
        Ok(config)
    }

    /// Reads the text of a file, which complaints call `name`.
    pub fn parse(text: &str, name: &str) -> Result<Self, ConfigError> {
        let at = |span: Range<usize>, why: String| {
            let line = 1 + text[..span.start.min(text.len())].matches('\n').count();
            ConfigError { place: Some(format!("{name}:{line}")), why }
        };
        let file: File = toml::from_str(text).map_err(|error| {
            let span = error.span().unwrap_or(0..0);
            at(span, error.message().trim().replace('\n', " "))
        })?;
        let spans = Spans::of(&file, text);
        let config = file.into_config(name).map_err(|Complaint(span, why)| at(span, why))?;
        match config.check_parts() {
            Ok(_) => Ok(config),
            Err((part, error)) => Err(at(spans.of_part(part), error.why)),
        }
    }
}

/// Where the parts are, for complaints about their meaning.
struct Spans {
    node: Range<usize>,
    members: Vec<Range<usize>>,
    locks: Vec<Range<usize>>,
    end: usize,
}

impl Spans {
    fn of(file: &File, text: &str) -> Self {
        Self {
            node: file.node.span(),
            members: file.members.iter().map(Spanned::span).collect(),
            locks: file.locks.iter().map(Spanned::span).collect(),
            end: text.len(),
        }
    }

    fn of_part(&self, part: Part) -> Range<usize> {
        let end = self.end..self.end;
        match part {
            Part::Node => self.node.clone(),
            Part::Members => end,
            Part::Member(place) => self.members.get(place).cloned().unwrap_or(end),
            Part::Lock(place) => self.locks.get(place).cloned().unwrap_or(end),
        }
    }
}

impl File {
    fn into_config(self, name: &str) -> Result<Config, Complaint> {
        let members = self.members.into_iter().map(|member| {
            let member = member.into_inner();
            let address = member.address.get_ref();
            if address.rsplit_once(':').is_none_or(|(_, port)| port.parse::<u16>().is_err()) {
                let why = format!("an address is HOST:PORT, `{address}` is not");
                return Err(Complaint(member.address.span(), why));
            }
            Ok(MemberConfig { name: member.name, address: member.address.into_inner() })
        });
        let node = self.node.into_inner();
        let data = self.data.unwrap_or_else(|| {
            // Two nodes whose files lie in one directory still have one each.
            let stem = Path::new(name).file_stem().map_or("mutua".into(), |stem| stem.to_owned());
            format!("{}-{node}.data", stem.to_string_lossy())
        });
        Ok(Config {
            cluster: self.cluster,
            members: members.collect::<Result<_, _>>()?,
            data: data.into(),
            rules: self.locks.into_iter().map(rule).collect::<Result<_, _>>()?,
            limits: self.limits.limits()?,
            insecure: self.insecure,
            trace: None,
            node,
        })
    }
}

fn rule(lock: Spanned<FileLock>) -> Result<Rule, Complaint> {
    let lock = lock.into_inner();
    let algorithm = lock.algorithm.unwrap_or_else(|| DEFAULT_ALGORITHM.to_owned());
    let mut rule = Rule::new(lock.names, algorithm);
    for (key, value) in lock.with {
        let value = match value {
            Scalar::Text(text) => text,
            Scalar::Number(number) => number.to_string(),
        };
        rule = rule.with(&key, &value);
    }
    if let Some(topology) = lock.topology {
        let span = topology.span();
        rule.topology = shape(topology.into_inner()).map_err(|why| Complaint(span, why))?;
    }
    if let Some(quorums) = lock.quorums {
        rule.quorums = match quorums.get_ref().as_str() {
            "grid" => QuorumKind::Grid,
            "plane" => QuorumKind::Plane,
            "majority" => QuorumKind::Majority,
            "tree" => QuorumKind::Tree,
            other => {
                let why = format!("quorums are grid, plane, majority or tree, not `{other}`");
                return Err(Complaint(quorums.span(), why));
            }
        };
    }
    Ok(rule)
}

fn shape(topology: FileTopology) -> Result<Topology, String> {
    let text = match topology {
        FileTopology::Edges(edges) => {
            let edge = |(one, other)| (NodeId(one), NodeId(other));
            return Ok(Topology::Edges(edges.into_iter().map(edge).collect()));
        }
        FileTopology::Shape(text) => text,
    };
    match text.as_str() {
        "line" => Ok(Topology::Line),
        "star" => Ok(Topology::Star),
        "binary" => Ok(Topology::Binary),
        other => match other.strip_prefix("kary:").and_then(|degree| degree.parse().ok()) {
            Some(degree) if degree > 0 => Ok(Topology::Kary(degree)),
            Some(_) | None => Err(format!(
                "a topology is line, star, binary, kary:K or a list of edges [[0, 1], ...], not \
                 `{other}`"
            )),
        },
    }
}

impl FileLimits {
    fn limits(self) -> Result<Limits, Complaint> {
        let mut limits = Limits::default();
        let beats = self.lost_after.as_ref().or(self.heartbeat.as_ref()).map(Spanned::span);
        for (value, limit, name) in
            [(self.run, &mut limits.run, "run"), (self.at_once, &mut limits.at_once, "at_once")]
        {
            let Some(value) = value else { continue };
            *limit = *value.get_ref();
            if *limit == 0 {
                let why = format!("{name} is how many may go in before others do: at least 1");
                return Err(Complaint(value.span(), why));
            }
        }
        if let Some(backlog) = self.backlog {
            limits.backlog = *backlog.get_ref();
            if limits.backlog == 0 {
                let why = "backlog is how many messages may wait on a link: at least 1".to_owned();
                return Err(Complaint(backlog.span(), why));
            }
        }
        for (value, limit) in [
            (self.lost_after, &mut limits.lost_after),
            (self.heartbeat, &mut limits.heartbeat),
            (self.pace_wanted, &mut limits.pace_wanted),
            (self.pace_idle, &mut limits.pace_idle),
            (self.pace_rest, &mut limits.pace_rest),
            (self.forget_after, &mut limits.forget_after),
        ] {
            if let Some(value) = value {
                *limit = duration(value.get_ref()).ok_or_else(|| {
                    let why = format!(
                        "a time is written 500ms, 2s or 5m and is more than 0, `{}` is not",
                        value.get_ref()
                    );
                    Complaint(value.span(), why)
                })?;
            }
        }
        if limits.heartbeat >= limits.lost_after {
            let why = "lost_after must be longer than heartbeat, or everybody is lost at once";
            return Err(Complaint(beats.unwrap_or(0..0), why.to_owned()));
        }
        Ok(limits)
    }
}

fn duration(text: &str) -> Option<Duration> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit())?;
    let number: u64 = text[..digits].parse().ok()?;
    let duration = match &text[digits..] {
        "ms" => Duration::from_millis(number),
        "s" => Duration::from_secs(number),
        "m" => Duration::from_secs(number.checked_mul(60)?),
        _ => return None,
    };
    (!duration.is_zero()).then_some(duration)
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

    fn complaint(old: &str, new: &str) -> String {
        assert!(GOOD.contains(old), "{old}");
        let text = GOOD.replacen(old, new, 1);
        Config::parse(&text, "mutua.toml").expect_err("a complaint").to_string()
    }

    #[test]
    fn a_good_file_is_taken() {
        let config = Config::parse(GOOD, "mutua.toml").expect("a good file");
        assert_eq!(config.members[1].address, "127.0.0.1:7002");
        assert_eq!(config.limits.lost_after, Duration::from_secs(3));
        assert_eq!(config.rules[0].algorithm, "maekawa");
        assert_eq!(config.data.to_str(), Some("mutua-b.data"));
    }

    #[test]
    fn complaints_name_the_line_and_what_would_be_right() {
        let text = complaint("node = \"b\"", "node = \"c\"");
        assert_eq!(text, "mutua.toml:3: `c` is none of the members: a, b");
        let text = complaint("name = \"b\"", "name = \"a\"");
        assert!(text.starts_with("mutua.toml:9: two members have the name `a`"), "{text}");
        let text = complaint("127.0.0.1:7002", "127.0.0.1");
        assert!(text.starts_with("mutua.toml:11: an address is HOST:PORT"), "{text}");
        let text = complaint("algorithm = \"maekawa\"", "algorithm = \"bakery-naive\"");
        assert!(text.starts_with("mutua.toml:13: bakery-naive is a negative control"), "{text}");
        let text = complaint("lost_after = \"3s\"", "lost_after = \"soon\"");
        assert!(text.starts_with("mutua.toml:19: a time is written"), "{text}");
        let text = complaint("lost_after = \"3s\"", "heartbeat = \"3s\"");
        assert!(text.starts_with("mutua.toml:19: lost_after must be longer"), "{text}");
        let text = complaint("lost_after = \"3s\"", "backlog = 0");
        assert!(text.starts_with("mutua.toml:19: backlog is how many"), "{text}");
        let text = complaint("lost_after = \"3s\"", "at_once = 0");
        assert!(text.starts_with("mutua.toml:19: at_once is how many"), "{text}");
        let text = complaint("cluster =", "clutser =");
        assert!(text.starts_with("mutua.toml:2: ") && text.contains("clutser"), "{text}");
        let text = complaint("[limits]", "[limits");
        assert!(text.starts_with("mutua.toml:18: "), "{text}");
    }
}
