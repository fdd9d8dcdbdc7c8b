//! The rules of locks as text, apart from a configuration.

use std::{fmt::Write, ops::Range};

use mutua_algorithms::Topology;
use mutua_protocol::Rule;
use serde::Deserialize;
use toml::Spanned;

use super::{
    ConfigError, ConfigProblem,
    file::{File, FileLock, Located, rule},
    keys::unknown_key,
};

/// A file with nothing but rules.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RulesFile {
    #[serde(default)]
    locks: Vec<Spanned<FileLock>>,
}

/// Reads the tables `[[locks]]` of a file that has nothing else, or of a configuration. Errors name
/// the file as `name`. Whether a cluster can follow them is not checked.
///
/// # Errors
///
/// If the text is not TOML, or has unknown keys or values.
pub fn parse_rules(text: &str, name: &str) -> Result<Vec<Rule>, ConfigError> {
    let at = |span: Range<usize>, problem: ConfigProblem| {
        let line = 1 + text[..span.start.min(text.len())].matches('\n').count();
        ConfigError { at: Some(format!("{name}:{line}")), problem }
    };
    let locks = match toml::from_str::<File>(text) {
        Ok(file) => file.locks,
        Err(_) => {
            let file = toml::from_str::<RulesFile>(text).map_err(|error| {
                let message = error.message().trim().replace('\n', " ");
                let problem = ConfigProblem::Syntax(unknown_key(&message).unwrap_or(message));
                at(error.span().unwrap_or(0..0), problem)
            })?;
            file.locks
        }
    };
    let rules = locks.into_iter().map(rule).collect::<Result<_, _>>();
    rules.map_err(|Located(span, problem)| at(span, problem))
}

/// Rules as a file has them.
pub fn rules_text(rules: &[Rule]) -> String {
    let mut text = String::new();
    for rule in rules {
        let separator = if text.is_empty() { "" } else { "\n" };
        let names = quoted(rule.names.text());
        let _ = writeln!(text, "{separator}[[locks]]\nnames = {names}");
        let _ = writeln!(text, "algorithm = {}", quoted(&rule.algorithm));
        let with: Vec<_> = rule
            .settings
            .iter()
            .map(|(key, value)| format!("{} = {}", quoted(key), quoted(value)))
            .collect();
        if !with.is_empty() {
            let _ = writeln!(text, "with = {{ {} }}", with.join(", "));
        }
        let plain = Rule::new("*", rule.algorithm.clone());
        if rule.topology != plain.topology {
            let _ = writeln!(text, "topology = {}", topology(&rule.topology));
        }
        if rule.quorums != plain.quorums {
            let _ = writeln!(text, "quorums = {}", quoted(rule.quorums.name()));
        }
    }
    text
}

fn topology(topology: &Topology) -> String {
    match topology {
        Topology::Edges(edges) => {
            let edges: Vec<_> =
                edges.iter().map(|(one, other)| format!("[{}, {}]", one.0, other.0)).collect();
            format!("[{}]", edges.join(", "))
        }
        shape => quoted(&shape.name()),
    }
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

#[cfg(test)]
mod tests {
    use mutua_algorithms::{NodeId, QuorumKind};

    use super::*;

    #[test]
    fn rules_are_read_as_they_are_written() {
        let edges = Topology::Edges(vec![(NodeId(0), NodeId(1)), (NodeId(1), NodeId(2))]);
        let rules = [
            Rule::new("votes/*", "maekawa").with("resolution", "reject"),
            Rule { quorums: QuorumKind::Majority, ..Rule::new("a \"b\"\\?", "sanders") },
            Rule { topology: edges, ..Rule::new("tree", "raymond") },
            Rule { topology: Topology::Kary(3), ..Rule::new("*", "neilsen-mizuno") },
        ];
        assert_eq!(parse_rules(&rules_text(&rules), "f").expect("rules"), rules);
        assert_eq!(parse_rules("", "f").expect("none"), []);
    }

    #[test]
    fn the_rules_of_a_configuration_are_read_and_its_other_keys_are_not() {
        let text = "cluster = \"c\"\nnode = \"a\"\n[[members]]\nname = \"a\"\n\
                    address = \"127.0.0.1:1\"\n[[locks]]\nnames = \"x\"\nalgorithm = \"lamport\"\n";
        assert_eq!(parse_rules(text, "f").expect("rules"), [Rule::new("x", "lamport")]);
    }

    #[test]
    fn an_error_names_the_line() {
        let wrong = |text: &str| parse_rules(text, "f").expect_err("wrong").to_string();
        let text = wrong("[[locks]]\nnames = \"x\"\nalgoritm = \"lamport\"\n");
        assert_eq!(text, "f:3: unknown key `algoritm`: did you mean `algorithm`?");
        let text = wrong("[[lock]]\nnames = \"x\"\n");
        assert_eq!(text, "f:1: unknown key `lock`: did you mean `locks`?");
        let text = wrong("[[locks]]\nnames = \"x\"\nquorums = \"few\"\n");
        assert!(text.starts_with("f:3: "), "{text}");
    }
}
