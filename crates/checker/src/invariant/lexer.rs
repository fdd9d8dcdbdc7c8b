//! The words and signs of an expression.

use super::InvariantError;

/// A word or sign.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Token {
    Name(String),
    Number(i64),
    /// In quotation marks.
    Word(String),
    Sign(&'static str),
    End,
}

/// A token, and the column where it begins.
pub(super) type At = (Token, usize);

/// Longer signs before their beginnings.
const SIGNS: [&str; 16] =
    ["->", "!=", "<=", ">=", "=", "<", ">", "+", "-", "(", ")", "[", "]", ",", ":", "."];

/// The tokens of a text, the end included.
pub(super) fn tokens(text: &str) -> Result<Vec<At>, InvariantError> {
    let characters: Vec<char> = text.chars().collect();
    let mut found = Vec::new();
    let mut at = 0;
    while at < characters.len() {
        let column = at + 1;
        let is_name = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
        let first = characters[at];
        if first.is_whitespace() {
            at += 1;
        } else if is_name(&first) {
            let word: String = characters[at..].iter().take_while(|c| is_name(c)).collect();
            at += word.len();
            found.push((name_or_number(word, column)?, column));
        } else if first == '"' || first == '\'' {
            let rest = &characters[at + 1..];
            let Some(length) = rest.iter().position(|&c| c == first) else {
                let what = format!("the quotation mark {first} has no end");
                return Err(InvariantError { column, what });
            };
            found.push((Token::Word(rest[..length].iter().collect()), column));
            at += length + 2;
        } else {
            let starts = |sign: &&&str| {
                sign.chars().enumerate().all(|(i, c)| characters.get(at + i) == Some(&c))
            };
            let Some(&sign) = SIGNS.iter().find(starts) else {
                let what = format!("the sign `{first}` has no meaning here");
                return Err(InvariantError { column, what });
            };
            found.push((Token::Sign(sign), column));
            at += sign.len();
        }
    }
    found.push((Token::End, characters.len() + 1));
    Ok(found)
}

fn name_or_number(word: String, column: usize) -> Result<Token, InvariantError> {
    if !word.starts_with(|c: char| c.is_ascii_digit()) {
        return Ok(Token::Name(word));
    }
    let number = word.parse().map(Token::Number);
    number.map_err(|_| InvariantError { column, what: format!("`{word}` is not a number") })
}

impl Token {
    /// The token as it was written.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Name(name) => format!("`{name}`"),
            Self::Number(number) => format!("`{number}`"),
            Self::Word(word) => format!("`\"{word}\"`"),
            Self::Sign(sign) => format!("`{sign}`"),
            Self::End => "the end".to_owned(),
        }
    }
}
