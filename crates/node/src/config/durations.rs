//! Durations in a configuration file.

use std::{fmt, time::Duration};

use mutua_algorithms::durations;
use serde::{
    Deserialize, Deserializer,
    de::{self, Visitor},
};

use super::ConfigProblem;

/// The text of a duration: `1`, `0.5` or `"500ms"`, as on the command line.
pub(super) struct FileDuration(String);

impl FileDuration {
    /// The duration, which must be more than 0.
    pub(super) fn read(&self) -> Result<Duration, ConfigProblem> {
        match durations::parse(&self.0)? {
            Duration::ZERO => Err(ConfigProblem::ZeroDuration(self.0.clone())),
            duration => Ok(duration),
        }
    }
}

impl<'de> Deserialize<'de> for FileDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyForm;
        impl Visitor<'_> for AnyForm {
            type Value = FileDuration;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of seconds, or text with a unit, such as \"500ms\"")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<FileDuration, E> {
                Ok(FileDuration(text.to_owned()))
            }

            fn visit_i64<E: de::Error>(self, seconds: i64) -> Result<FileDuration, E> {
                Ok(FileDuration(seconds.to_string()))
            }

            fn visit_f64<E: de::Error>(self, seconds: f64) -> Result<FileDuration, E> {
                Ok(FileDuration(seconds.to_string()))
            }
        }
        deserializer.deserialize_any(AnyForm)
    }
}
