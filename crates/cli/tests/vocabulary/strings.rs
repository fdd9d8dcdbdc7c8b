//! The string literals of Rust source, without comments and without code of tests.

/// The string literals of a file with the lines that they start in. Attributes and items below
/// `#[cfg(test)]` are left out. Format placeholders are emptied, since they hold identifiers.
pub(crate) fn literals(source: &str) -> Vec<(usize, String)> {
    let mut scanner = Scanner { rest: source, line: 1, depth: 0, tests_from: None, armed: false };
    let mut found = Vec::new();
    while let Some(token) = scanner.next() {
        if let Token::String(line, text) = token
            && scanner.tests_from.is_none()
            && !scanner.armed
        {
            found.push((line, without_placeholders(&text)));
        }
    }
    found
}

enum Token {
    String(usize, String),
    Other,
}

/// Reads a file token by token, as far as strings, comments and braces need.
struct Scanner<'a> {
    rest: &'a str,
    line: usize,
    /// The number of open braces.
    depth: usize,
    /// The depth at which the item below `#[cfg(test)]` was opened.
    tests_from: Option<usize>,
    /// Whether `#[cfg(test)]` was read, and its item has not begun.
    armed: bool,
}

impl Scanner<'_> {
    fn next(&mut self) -> Option<Token> {
        let letter = self.rest.chars().next()?;
        if self.rest.starts_with("//") {
            let end = self.rest.find('\n').unwrap_or(self.rest.len());
            self.take(end);
        } else if self.rest.starts_with("/*") {
            self.block_comment();
        } else if let Some(hashes) = self.raw_string() {
            return Some(self.raw(hashes));
        } else if letter == '"' {
            return Some(self.string());
        } else if letter == '\'' {
            self.quote();
        } else if self.rest.starts_with("#[cfg(test)]") {
            self.armed = self.tests_from.is_none();
            self.take("#[cfg(test)]".len());
        } else if letter.is_alphanumeric() || letter == '_' {
            // A whole word, so that the `r` of `for"` does not begin a raw string.
            let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
            let end = self.rest.find(|letter| !is_word(letter)).unwrap_or(self.rest.len());
            self.take(end);
        } else {
            self.punctuation(letter);
        }
        Some(Token::Other)
    }

    /// Takes so many bytes.
    fn take(&mut self, count: usize) -> String {
        let (taken, rest) = self.rest.split_at(count);
        self.line += taken.matches('\n').count();
        self.rest = rest;
        taken.to_owned()
    }

    /// Block comments may be nested.
    fn block_comment(&mut self) {
        let mut depth = 0;
        loop {
            if self.rest.starts_with("/*") {
                depth += 1;
                self.take(2);
            } else if self.rest.starts_with("*/") {
                depth -= 1;
                self.take(2);
                if depth == 0 {
                    return;
                }
            } else if let Some(letter) = self.rest.chars().next() {
                self.take(letter.len_utf8());
            } else {
                return;
            }
        }
    }

    /// The number of hashes, if a raw string begins here.
    fn raw_string(&self) -> Option<usize> {
        let rest = self.rest.strip_prefix("br").or_else(|| self.rest.strip_prefix('r'))?;
        let hashes = rest.len() - rest.trim_start_matches('#').len();
        rest[hashes..].starts_with('"').then_some(hashes)
    }

    fn raw(&mut self, hashes: usize) -> Token {
        let line = self.line;
        let begin = self.rest.find('"').map_or(0, |at| at + 1);
        self.take(begin);
        let end = format!("\"{}", "#".repeat(hashes));
        let length = self.rest.find(&end).unwrap_or(self.rest.len());
        let text = self.take(length);
        self.take(end.len().min(self.rest.len()));
        Token::String(line, text)
    }

    /// A string; a backslash at the end of a line joins it with the next.
    fn string(&mut self) -> Token {
        let line = self.line;
        self.take(1);
        let mut text = String::new();
        while let Some(letter) = self.rest.chars().next() {
            self.take(letter.len_utf8());
            match letter {
                '"' => break,
                '\\' => match self.rest.chars().next() {
                    Some('\n') => {
                        let blank = self.rest.len() - self.rest.trim_start().len();
                        self.take(blank);
                    }
                    Some('n') => {
                        self.take(1);
                        text.push('\n');
                    }
                    Some(escaped) => {
                        self.take(escaped.len_utf8());
                        text.push(' ');
                    }
                    None => break,
                },
                letter => text.push(letter),
            }
        }
        Token::String(line, text)
    }

    /// A character, such as `'"'`, or a lifetime.
    fn quote(&mut self) {
        let mut letters = self.rest.char_indices().skip(1);
        let end = match (letters.next(), letters.next()) {
            (Some((_, '\\')), Some((at, escaped))) => {
                let after = at + escaped.len_utf8();
                self.rest[after..].find('\'').map(|end| after + end + 1)
            }
            (Some(_), Some((at, '\''))) => Some(at + 1),
            _ => None,
        };
        self.take(end.unwrap_or(1));
    }

    fn punctuation(&mut self, letter: char) {
        match letter {
            '{' => {
                if std::mem::take(&mut self.armed) {
                    self.tests_from = Some(self.depth);
                }
                self.depth += 1;
            }
            '}' => {
                self.depth = self.depth.saturating_sub(1);
                if self.tests_from == Some(self.depth) {
                    self.tests_from = None;
                }
            }
            // An item without a body, such as `mod tests;`.
            ';' => self.armed = false,
            _ => {}
        }
        self.take(letter.len_utf8());
    }
}

/// `{inside:<7}` is an identifier, not a text.
fn without_placeholders(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        kept += before;
        kept.push('{');
        match after.strip_prefix('{') {
            Some(literal) => rest = literal,
            None => rest = after.find('}').map_or("", |end| &after[end..]),
        }
    }
    kept + rest
}

#[test]
fn literals_are_found_without_comments_and_tests() {
    let source = r####"
        // "a comment" with 'quotes'
        /* "another" /* nested "one" */ */
        fn f<'a>(x: &'a str) { let quote = '"'; print("one \"two\"\
            three"); let raw = r#"four "five" {inside}"#; }
        #[cfg(test)]
        mod tests { fn g() { print("a test"); } }
        #[cfg(test)]
        use nothing;
        fn h() { print(b"six {inside:>3} {{seven}}"); for x in "eight" {} }
    "####;
    let expected = [
        (4, "one  two three".to_owned()),
        (5, "four \"five\" {}".to_owned()),
        (10, "six {} {seven}}".to_owned()),
        (10, "eight".to_owned()),
    ];
    assert_eq!(literals(source), expected);
}
