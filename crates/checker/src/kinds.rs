//! The kinds of messages that an algorithm has, whether or not a search meets them.
//!
//! No message type lists its kinds, but each can be read from bytes, and what reads it knows its
//! variants. So every variant is read once, with zeros for all that it carries, and asked for its
//! kind.

use std::{collections::BTreeSet, fmt};

use mutua_algorithms::{Election, Message, Mutex, registry, repairs::RepairMessage};
use serde::{
    Deserializer,
    de::{
        DeserializeSeed, EnumAccess, IntoDeserializer, SeqAccess, VariantAccess, Visitor,
        value::U32Deserializer,
    },
    forward_to_deserialize_any,
};

/// The kinds of messages of the algorithm of this name, with those of its repair if it has one;
/// none where they are not known.
pub(crate) fn kinds_of(name: &str, repaired: bool) -> Option<BTreeSet<&'static str>> {
    registry::visit_mutex(name, Kinds { repaired })
        .or_else(|| registry::visit_election(name, Kinds { repaired }))?
}

struct Kinds {
    repaired: bool,
}

impl registry::MutexVisitor for Kinds {
    type Output = Option<BTreeSet<&'static str>>;

    fn visit<M: Mutex>(self) -> Self::Output {
        if self.repaired { all::<RepairMessage<M::Message>>() } else { all::<M::Message>() }
    }
}

impl registry::ElectionVisitor for Kinds {
    type Output = Option<BTreeSet<&'static str>>;

    fn visit<E: Election>(self) -> Self::Output {
        all::<E::Message>()
    }
}

/// The kinds of all variants; none if one of them cannot be read like this.
fn all<M: Message>() -> Option<BTreeSet<&'static str>> {
    let (mut kinds, mut choices) = (BTreeSet::new(), Choices::default());
    loop {
        kinds.insert(M::deserialize(Zeros(&mut choices)).ok()?.kind());
        if !choices.advance() {
            return Some(kinds);
        }
    }
}

/// The variants that are read this time, of the enums in the order in which they are met.
#[derive(Debug, Default)]
struct Choices {
    /// The variant of each, and how many it has.
    made: Vec<(u32, u32)>,
    /// How many were met so far.
    met: usize,
}

impl Choices {
    fn choose(&mut self, of: usize) -> u32 {
        if self.met == self.made.len() {
            self.made.push((0, of as u32));
        }
        self.met += 1;
        self.made[self.met - 1].0
    }

    /// Goes to the next variant of the last enum that has one; whether there was any.
    fn advance(&mut self) -> bool {
        self.met = 0;
        while let Some((chosen, of)) = self.made.pop() {
            if chosen + 1 < of {
                self.made.push((chosen + 1, of));
                return true;
            }
        }
        false
    }
}

/// Reads a value that is zero, empty or absent wherever it is not an enum.
struct Zeros<'a>(&'a mut Choices);

/// Why a value cannot be read: it is of a kind that no message carries.
#[derive(Debug)]
struct Unreadable;

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no message carries such a value")
    }
}

impl std::error::Error for Unreadable {}

impl serde::de::Error for Unreadable {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
}

type Read<T> = Result<T, Unreadable>;

impl<'de> Deserializer<'de> for Zeros<'_> {
    type Error = Unreadable;

    /// A number.
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        visitor.visit_u64(0)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        visitor.visit_bool(false)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        visitor.visit_none()
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Read<V::Value> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Read<V::Value> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        visitor.visit_seq(Parts { choices: self.0, left: 0 })
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, parts: usize, visitor: V) -> Read<V::Value> {
        visitor.visit_seq(Parts { choices: self.0, left: parts })
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        parts: usize,
        visitor: V,
    ) -> Read<V::Value> {
        self.deserialize_tuple(parts, visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Read<V::Value> {
        self.deserialize_tuple(fields.len(), visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Read<V::Value> {
        let variant = self.0.choose(variants.len());
        visitor.visit_enum(Variant { choices: self.0, variant })
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf map
        identifier ignored_any
    }
}

/// The fields of a value.
struct Parts<'a> {
    choices: &'a mut Choices,
    left: usize,
}

impl<'de> SeqAccess<'de> for Parts<'_> {
    type Error = Unreadable;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Read<Option<T::Value>> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        seed.deserialize(Zeros(self.choices)).map(Some)
    }
}

/// One variant of an enum.
struct Variant<'a> {
    choices: &'a mut Choices,
    variant: u32,
}

impl<'de> EnumAccess<'de> for Variant<'_> {
    type Error = Unreadable;
    type Variant = Self;

    fn variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Read<(T::Value, Self)> {
        let number: U32Deserializer<Unreadable> = self.variant.into_deserializer();
        Ok((seed.deserialize(number)?, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_> {
    type Error = Unreadable;

    fn unit_variant(self) -> Read<()> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Read<T::Value> {
        seed.deserialize(Zeros(self.choices))
    }

    fn tuple_variant<V: Visitor<'de>>(self, parts: usize, visitor: V) -> Read<V::Value> {
        visitor.visit_seq(Parts { choices: self.choices, left: parts })
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Read<V::Value> {
        visitor.visit_seq(Parts { choices: self.choices, left: fields.len() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_algorithm_has_its_kinds_with_and_without_a_repair() {
        for about in registry::ALGORITHMS {
            for repaired in [false, true] {
                let kinds = kinds_of(about.name, repaired).unwrap_or_default();
                assert!(!kinds.is_empty(), "{}", about.name);
            }
        }
        let kinds = |name, repaired| kinds_of(name, repaired).expect("they are known");
        assert_eq!(kinds("central", false), ["denied", "release", "reply", "request"].into());
        assert_eq!(kinds("le-lann", false), ["token"].into());
        let repaired = kinds("raymond", true);
        for kind in ["token", "view", "ack", "are-you-coordinator", "who", "elected"] {
            assert!(repaired.contains(kind), "{kind}: {repaired:?}");
        }
    }
}
