//! Variables of the environment that override keys of the file, for containers: `MUTUA_NODE_LISTEN`
//! is `listen`, `MUTUA_NODE_VIEW_LEASE` is `view_lease` in `[limits]`. Keys of lists have none.

use std::collections::BTreeMap;

use toml::{Table, Value};

use super::{
    CONFIG_KEYS, Config, ConfigError, ConfigKey, ConfigProblem, file::parse_table, keys::nearest,
};

/// The beginning of the names of all variables.
const PREFIX: &str = "MUTUA_NODE_";

/// Variables by their names, with values that are not empty.
pub(super) type Variables = BTreeMap<String, String>;

/// The variables of this process that may override keys.
pub(super) fn of_environment() -> Result<Variables, ConfigError> {
    let mut variables = Variables::new();
    for (name, value) in std::env::vars_os().filter(|(_, value)| !value.is_empty()) {
        let name = name.to_string_lossy();
        if !name.starts_with(PREFIX) {
            continue;
        }
        let value = value.into_string().map_err(|value| ConfigError {
            at: None,
            problem: ConfigProblem::Variable {
                variable: name.to_string(),
                value: value.to_string_lossy().into_owned(),
                kind: "value in UTF-8",
            },
        })?;
        variables.insert(name.into_owned(), value);
    }
    Ok(variables)
}

/// The variable that is set instead of this key, if it is.
pub(super) fn set_instead_of(key: &str) -> Option<String> {
    let variable = format!("{PREFIX}{}", key.to_uppercase());
    std::env::var_os(&variable).filter(|value| !value.is_empty()).map(|_| variable)
}

/// The variable that overrides a key, if one does.
fn variable(key: &ConfigKey) -> Option<String> {
    let single = !key.table.starts_with("[[");
    single.then(|| format!("{PREFIX}{}", key.name.to_uppercase()))
}

/// The key that a variable overrides; `None` if it is not for this program.
fn overridden(name: &str, value: &str) -> Result<Option<&'static ConfigKey>, ConfigProblem> {
    let key = CONFIG_KEYS.iter().find(|key| variable(key).is_some_and(|known| known == name));
    if key.is_some() || is_of_a_service(name.trim_start_matches(PREFIX), value) {
        return Ok(key);
    }
    let nearest = nearest(&name.to_uppercase(), CONFIG_KEYS.iter().filter_map(variable));
    Err(ConfigProblem::UnknownVariable { variable: name.to_owned(), nearest })
}

/// Whether Kubernetes sets a variable whose name ends like this, with this value: containers get
/// the address of a service called `mutua-node`, or `mutua-node-a`, in such variables.
fn is_of_a_service(end: &str, value: &str) -> bool {
    let words: Vec<_> = end.split('_').collect();
    (0..words.len()).any(|at| match &words[at..] {
        ["SERVICE", "HOST"] | ["SERVICE", "PORT", ..] => true,
        ["PORT", number, "TCP" | "UDP" | "SCTP", ..] => number.parse::<u16>().is_ok(),
        // Of `mutua-node-metrics`: tcp://10.0.0.1:9464. A plain METRICS_PORT=9464 is misspelt.
        ["PORT"] => at == 0 || value.contains("://"),
        _ => false,
    })
}

impl Config {
    /// Reads the text of a file, with what these variables say instead of its keys.
    pub(super) fn parse_with(
        text: &str,
        name: &str,
        variables: &Variables,
    ) -> Result<Self, ConfigError> {
        let unlocated = |problem| ConfigError { at: None, problem };
        let mut found = Vec::new();
        for (variable, value) in variables {
            let key = overridden(variable, value).map_err(unlocated)?;
            found.extend(key.map(|key| (key, variable, value)));
        }
        if found.is_empty() {
            return Self::parse(text, name);
        }
        let mut table = parse_table(text, name)?;
        let mut names = Vec::new();
        for (key, variable, value) in found {
            set(&mut table, key, variable, value).map_err(unlocated)?;
            names.push(&**variable);
        }
        // Lines are not those of the file any more.
        Self::parse(&table.to_string(), name).map_err(|error| ConfigError {
            at: Some(format!("{name} with {}", names.join(", "))),
            ..error
        })
    }
}

fn set(
    table: &mut Table,
    key: &ConfigKey,
    variable: &str,
    value: &str,
) -> Result<(), ConfigProblem> {
    let invalid = || ConfigProblem::Variable {
        variable: variable.to_owned(),
        value: value.to_owned(),
        kind: key.kind,
    };
    let parsed = match key.kind {
        "number" => Value::Integer(value.parse().map_err(|_| invalid())?),
        "boolean" => Value::Boolean(value.parse().map_err(|_| invalid())?),
        _ => Value::String(value.to_owned()),
    };
    let inner = key.table.trim_matches(['[', ']']);
    if inner.is_empty() {
        table.insert(key.name.to_owned(), parsed);
    } else if let Value::Table(inner) =
        table.entry(inner).or_insert_with(|| Value::Table(Table::new()))
    {
        inner.insert(key.name.to_owned(), parsed);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const TEXT: &str = r#"
cluster = "c"
node = "a"
members = [{ name = "a", address = "127.0.0.1:1" }, { name = "b", address = "127.0.0.1:2" }]
limits = { run = 4 }
"#;

    fn with(variables: &[(&str, &str)]) -> Result<Config, String> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let variables = variables.iter().map(owned).collect();
        Config::parse_with(TEXT, "f.toml", &variables).map_err(|error| error.to_string())
    }

    #[test]
    fn a_variable_overrides_a_key_of_the_file() {
        let config = with(&[
            ("MUTUA_NODE_NODE", "b"),
            ("MUTUA_NODE_LISTEN", "0.0.0.0:7001"),
            ("MUTUA_NODE_INSECURE", "true"),
            ("MUTUA_NODE_METRICS_LISTEN", "9464"),
            ("MUTUA_NODE_LOST_AFTER", "5s"),
        ]);
        let config = config.expect("valid");
        assert_eq!((&*config.node, config.listen.as_deref()), ("b", Some("0.0.0.0:7001")));
        assert!(config.insecure);
        assert_eq!(config.metrics_listen.map(|address| address.port()), Some(9464));
        assert_eq!((config.limits.lost_after, config.limits.run), (Duration::from_secs(5), 4));
    }

    #[test]
    fn an_error_names_the_variables() {
        let invalid = with(&[("MUTUA_NODE_RUN", "many")]).expect_err("invalid");
        assert_eq!(invalid, "invalid MUTUA_NODE_RUN `many`: use a number");
        let unknown = with(&[("MUTUA_NODE_NODE", "z")]).expect_err("not a member");
        assert!(unknown.starts_with("f.toml with MUTUA_NODE_NODE: "), "{unknown}");
    }

    #[test]
    fn without_variables_an_error_names_the_line() {
        let error = Config::parse_with("cluster = 1\n", "f.toml", &Variables::new());
        let error = error.expect_err("invalid");
        assert!(error.to_string().starts_with("f.toml:1: "), "{error}");
    }

    #[test]
    fn a_duration_without_a_unit_is_in_seconds() {
        let config = with(&[("MUTUA_NODE_VIEW_LEASE", "1"), ("MUTUA_NODE_PACE_IDLE", "0.25")]);
        let config = config.expect("valid");
        assert_eq!(config.view_lease, Duration::from_secs(1));
        assert_eq!(config.limits.pace_idle, Duration::from_millis(250));
    }

    #[test]
    fn an_unknown_variable_is_refused_with_the_nearest_one() {
        for (misspelt, meant) in [
            ("MUTUA_NODE_LISEN", "MUTUA_NODE_LISTEN"),
            ("MUTUA_NODE_view_lease", "MUTUA_NODE_VIEW_LEASE"),
            ("MUTUA_NODE_NAME", "MUTUA_NODE_NODE"),
        ] {
            let refused = with(&[(misspelt, "x")]).expect_err(misspelt);
            let right = format!("unknown variable `{misspelt}`: did you mean `{meant}`?");
            assert_eq!(refused, right);
        }
        let refused = with(&[("MUTUA_NODE_METRICS_PORT", "9464")]).expect_err("unknown");
        assert!(refused.ends_with("`mutua config keys` lists them"), "{refused}");
    }

    #[test]
    fn variables_that_kubernetes_sets_for_a_service_are_ignored() {
        let variables = [
            ("MUTUA_NODE_SERVICE_HOST", "10.0.0.1"),
            ("MUTUA_NODE_SERVICE_PORT", "7000"),
            ("MUTUA_NODE_SERVICE_PORT_CLIENTS", "7000"),
            ("MUTUA_NODE_PORT", "tcp://10.0.0.1:7000"),
            ("MUTUA_NODE_PORT_7000_TCP", "tcp://10.0.0.1:7000"),
            ("MUTUA_NODE_PORT_7000_TCP_PROTO", "tcp"),
            ("MUTUA_NODE_PORT_7000_TCP_PORT", "7000"),
            ("MUTUA_NODE_PORT_7000_TCP_ADDR", "10.0.0.1"),
            // Of a service called mutua-node-a.
            ("MUTUA_NODE_A_SERVICE_HOST", "10.0.0.2"),
            ("MUTUA_NODE_A_PORT", "tcp://10.0.0.2:7000"),
            ("MUTUA_NODE_A_PORT_7000_TCP_ADDR", "10.0.0.2"),
        ];
        let config = with(&variables).expect("valid");
        assert_eq!((&*config.node, config.limits.run), ("a", 4));
    }
}
