//! Named values, rendered: the fields of a message, the variables of a machine.

use std::{borrow::Cow, fmt};

use mutua_algorithms::{Fields, NodeId};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, Visitor},
};

/// Values by name, in the order in which they are shown. In a file it is one JSON object.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Values(pub Vec<(Cow<'static, str>, String)>);

impl Values {
    /// The state of a machine or the contents of a message; `name` gives the names of processes.
    pub fn render(fields: &Fields, name: &dyn Fn(NodeId) -> String) -> Self {
        Self(fields.iter().map(|(key, value)| (Cow::from(*key), value.render(name))).collect())
    }

    /// The value of this name.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.iter().find(|(known, _)| *known == key).map(|(_, value)| value)
    }

    /// All values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_ref(), value.as_str()))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// `name=value`, separated by commas.
impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (key, value)) in self.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{key}={value}")?;
        }
        Ok(())
    }
}

impl Serialize for Values {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Values {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Values;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of texts")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Values, A::Error> {
                let mut values = Values::default();
                while let Some((key, value)) = map.next_entry::<String, String>()? {
                    values.0.push((Cow::from(key), value));
                }
                Ok(values)
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}
