//! Variables of the environment that override keys of the file, for containers: `MUTUA_NODE_LISTEN`
//! is `listen`, `MUTUA_NODE_VIEW_LEASE` is `view_lease` in `[limits]`. Keys of lists have none.

use toml::{Table, Value};

use super::{CONFIG_KEYS, Config, ConfigError, ConfigKey, ConfigProblem, file::parse_table};

/// The variable that overrides a key, if one does.
fn variable(key: &ConfigKey) -> Option<String> {
    let single = !key.table.starts_with("[[");
    single.then(|| format!("MUTUA_NODE_{}", key.name.to_uppercase()))
}

impl Config {
    /// Reads the text of a file, with what these variables say instead of its keys.
    pub(super) fn parse_with(
        text: &str,
        name: &str,
        variables: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        let found = |key: &&'static ConfigKey| {
            let variable = variable(key)?;
            let value = variables(&variable)?;
            Some((*key, variable, value))
        };
        let found: Vec<_> = CONFIG_KEYS.iter().filter_map(|key| found(&key)).collect();
        if found.is_empty() {
            return Self::parse(text, name);
        }
        let mut table = parse_table(text, name)?;
        let mut names = Vec::new();
        for (key, variable, value) in found {
            set(&mut table, key, &variable, value)
                .map_err(|problem| ConfigError { at: None, problem })?;
            names.push(variable);
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
    value: String,
) -> Result<(), ConfigProblem> {
    let invalid = || ConfigProblem::Variable {
        variable: variable.to_owned(),
        value: value.clone(),
        kind: key.kind,
    };
    let parsed = match key.kind {
        "number" => Value::Integer(value.parse().map_err(|_| invalid())?),
        "boolean" => Value::Boolean(value.parse().map_err(|_| invalid())?),
        _ => Value::String(value.clone()),
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
        let value = |name: &str| {
            let found = variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        Config::parse_with(TEXT, "f.toml", value).map_err(|error| error.to_string())
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
        let error = Config::parse_with("cluster = 1\n", "f.toml", |_| None).expect_err("invalid");
        assert!(error.to_string().starts_with("f.toml:1: "), "{error}");
    }
}
