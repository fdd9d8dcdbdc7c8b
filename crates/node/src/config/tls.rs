//! The certificates that a configuration names, with every error at the key of its file.

use std::{collections::BTreeMap, fs};

use mutua_tls::{Identity, TlsError, TlsFiles};
use serde::Deserialize;
use toml::{Spanned, Value};

use super::{Config, ConfigError, ConfigProblem, file::located, overrides};

/// A file with a table of certificates, whatever else it has.
#[derive(Deserialize)]
struct Keys {
    tls: BTreeMap<String, Spanned<Value>>,
}

impl Config {
    /// Reads this node's certificates, if it uses TLS.
    ///
    /// # Errors
    ///
    /// If they cannot be used; the error names the key of the file, and its line.
    pub fn identity(&self) -> Result<Option<Identity>, ConfigError> {
        let Some(files) = &self.tls else { return Ok(None) };
        let opened = Identity::open(files.clone(), &self.node);
        opened.map(Some).map_err(|error| self.at_its_key(files, error))
    }

    fn at_its_key(&self, files: &TlsFiles, error: TlsError) -> ConfigError {
        let key = match error.path() {
            path if path == files.ca => "ca",
            path if path == files.key => "key",
            path if files.revoked.as_deref() == Some(path) => "revoked",
            _ => "cert",
        };
        let problem = ConfigProblem::Certificates { key, error };
        let Some(file) = &self.file else { return ConfigError { at: None, problem } };
        let name = file.display().to_string();
        if let Some(variable) = overrides::set_instead_of(key) {
            return ConfigError { at: Some(format!("{name} with {variable}")), problem };
        }
        // The lines are not kept: this is the only error that is met behind the reading of a file.
        let text = fs::read_to_string(file).unwrap_or_default();
        let keys = toml::from_str::<Keys>(&text).map(|keys| keys.tls).unwrap_or_default();
        match keys.get(key) {
            Some(value) => located(&text, &name, value.span(), problem),
            None => ConfigError { at: Some(name), problem },
        }
    }
}
