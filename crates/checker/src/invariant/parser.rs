//! The grammar of expressions.

use mutua_algorithms::NodeId;

use super::{
    InvariantError,
    item::Item,
    lexer::{At, Token, tokens},
};

/// An expression.
#[derive(Clone, Debug)]
pub(super) enum Expression {
    Literal(Item),
    /// A bound name: its place among those that are bound around it.
    Bound(usize),
    /// A variable of a process, or a part of a timestamp or a message.
    Member(Box<Expression>, String),
    Index(Box<Expression>, Box<Expression>),
    Not(Box<Expression>),
    And(Box<Expression>, Box<Expression>),
    Or(Box<Expression>, Box<Expression>),
    Implies(Box<Expression>, Box<Expression>),
    Compare(Comparison, Box<Expression>, Box<Expression>),
    Add(Box<Expression>, Box<Expression>),
    Subtract(Box<Expression>, Box<Expression>),
    /// Over the processes, or over the items of a list.
    Each(Quantifier, Option<Box<Expression>>, Box<Expression>),
    Call(Function, Vec<Expression>),
    /// The messages in flight: kind, sender and receiver, each where it is given.
    Messages(Option<String>, Option<Box<Expression>>, Option<Box<Expression>>),
    /// Following the variable of this name from the first process leads to the second.
    Reaches(Box<Expression>, String, Box<Expression>),
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Comparison {
    Equal,
    Unequal,
    Less,
    AtMost,
    Greater,
    AtLeast,
    In,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Quantifier {
    All,
    Some,
    /// How many.
    Count,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Function {
    Size,
    First,
    Processes,
    Neighbours,
    Quorum,
}

/// The forms of the language and their meanings, for people.
pub const FORMS: &[(&str, &str)] = &[
    ("forall p, q: E", "E is true for all processes p and q"),
    ("exists p: E", "E is true for some process; exists r in LIST: E, for some item"),
    ("count(p: E)", "the number of processes for which E is true; also count(r in LIST: E)"),
    ("A -> B, A or B, A and B, not A", "logic, in this order from loose to tight; -> is implies"),
    ("=, !=, <, <=, >, >=, in, +, -", "values of one kind; clock readings have no numbers"),
    ("p.NAME", "a variable of a process as mutua replay shows it; none where it has no value"),
    ("p.phase, p.clock", "idle, requesting or in_cs (or down); its Lamport clock"),
    ("LIST[p], LIST[0]", "the item of a process, or at a place; none behind the end"),
    ("size(LIST), first(LIST)", "the number of items; the first one, or none"),
    ("messages(KIND, p, q)", "the messages in flight of a kind, from p, to q; `any` for each"),
    ("r.time, r.node, m.kind, m.from, m.to, m.NAME", "parts of a timestamp r or a message m"),
    ("reaches(p, NAME, q)", "following the variable NAME from p leads to q, or p is q"),
    ("processes()", "the number of processes"),
    ("neighbours(p), quorum(p)", "in the tree; the members of its quorum"),
    ("P0, 3, true, none, idle, \"word\"", "a process, a number, a truth value, no value, words"),
];

/// Reads an expression.
pub(super) fn parse(text: &str) -> Result<Expression, InvariantError> {
    let mut parser = Parser { tokens: tokens(text)?, at: 0, bound: Vec::new(), depth: 0 };
    let whole = parser.implication()?;
    match parser.peek() {
        Token::End => Ok(whole),
        other => Err(parser.error(format!("{} is not expected here", other.text()))),
    }
}

struct Parser {
    tokens: Vec<At>,
    at: usize,
    /// The names that are bound here, the innermost last.
    bound: Vec<String>,
    depth: usize,
}

/// Words that stand for themselves, without quotation marks.
const WORDS: [&str; 4] = ["idle", "requesting", "in_cs", "down"];

/// The names of functions, for suggestions.
const FUNCTIONS: [&str; 8] =
    ["size", "first", "processes", "neighbours", "quorum", "count", "messages", "reaches"];

/// Deeper ones are refused, so that no text overflows the stack.
const MOST_NESTED: usize = 64;

type Parsed = Result<Expression, InvariantError>;

impl Parser {
    fn peek(&self) -> &Token {
        &self.tokens[self.at].0
    }

    fn next(&mut self) -> Token {
        let token = self.tokens[self.at].0.clone();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    fn error(&self, what: String) -> InvariantError {
        InvariantError { column: self.tokens[self.at].1, what }
    }

    fn takes(&mut self, sign: &str) -> bool {
        let found = matches!(self.peek(), Token::Sign(it) if *it == sign);
        if found {
            self.next();
        }
        found
    }

    fn takes_name(&mut self, name: &str) -> bool {
        let found = matches!(self.peek(), Token::Name(it) if it == name);
        if found {
            self.next();
        }
        found
    }

    fn expect(&mut self, sign: &str) -> Result<(), InvariantError> {
        if self.takes(sign) {
            return Ok(());
        }
        Err(self.error(format!("`{sign}` is missing before {}", self.peek().text())))
    }

    fn name(&mut self, what: &str) -> Result<String, InvariantError> {
        match self.peek().clone() {
            Token::Name(name) => {
                self.next();
                Ok(name)
            }
            other => Err(self.error(format!("{what} is missing before {}", other.text()))),
        }
    }

    /// `A -> B`, which binds loosest and to the right.
    fn implication(&mut self) -> Parsed {
        self.depth += 1;
        if self.depth > MOST_NESTED {
            return Err(self.error(format!("it is nested more than {MOST_NESTED} deep")));
        }
        let left = self.disjunction()?;
        let whole = if self.takes("->") {
            Expression::Implies(left.into(), self.implication()?.into())
        } else {
            left
        };
        self.depth -= 1;
        Ok(whole)
    }

    fn disjunction(&mut self) -> Parsed {
        let mut left = self.conjunction()?;
        while self.takes_name("or") {
            left = Expression::Or(left.into(), self.conjunction()?.into());
        }
        Ok(left)
    }

    fn conjunction(&mut self) -> Parsed {
        let mut left = self.negation()?;
        while self.takes_name("and") {
            left = Expression::And(left.into(), self.negation()?.into());
        }
        Ok(left)
    }

    fn negation(&mut self) -> Parsed {
        let mut negations = 0;
        while self.takes_name("not") {
            negations += 1;
        }
        let mut body = if self.takes_name("forall") {
            self.quantified(Quantifier::All)?
        } else if self.takes_name("exists") {
            self.quantified(Quantifier::Some)?
        } else {
            self.comparison()?
        };
        if negations % 2 == 1 {
            body = Expression::Not(body.into());
        }
        Ok(body)
    }

    /// `p, q: E` or `r in LIST: E`, behind its first word. The body goes as far as it can.
    fn quantified(&mut self, quantifier: Quantifier) -> Parsed {
        let mut names = vec![self.name("a name to bind")?];
        let mut over = None;
        if self.takes_name("in") {
            over = Some(Box::new(self.sum()?));
        } else {
            while self.takes(",") {
                names.push(self.name("a name to bind")?);
            }
        }
        self.expect(":")?;
        let count = names.len();
        self.bound.extend(names);
        let mut body = self.implication()?;
        self.bound.truncate(self.bound.len() - count);
        for _ in 1..count {
            body = Expression::Each(quantifier, None, body.into());
        }
        Ok(Expression::Each(quantifier, over, body.into()))
    }

    fn comparison(&mut self) -> Parsed {
        let left = self.sum()?;
        let comparison = match self.peek() {
            Token::Sign("=") => Comparison::Equal,
            Token::Sign("!=") => Comparison::Unequal,
            Token::Sign("<") => Comparison::Less,
            Token::Sign("<=") => Comparison::AtMost,
            Token::Sign(">") => Comparison::Greater,
            Token::Sign(">=") => Comparison::AtLeast,
            Token::Name(name) if name == "in" => Comparison::In,
            _ => return Ok(left),
        };
        self.next();
        Ok(Expression::Compare(comparison, left.into(), self.sum()?.into()))
    }

    fn sum(&mut self) -> Parsed {
        let mut left = self.value()?;
        loop {
            if self.takes("+") {
                left = Expression::Add(left.into(), self.value()?.into());
            } else if self.takes("-") {
                left = Expression::Subtract(left.into(), self.value()?.into());
            } else {
                return Ok(left);
            }
        }
    }

    /// A value with what is selected of it.
    fn value(&mut self) -> Parsed {
        let mut value = self.plain()?;
        loop {
            if self.takes(".") {
                value = Expression::Member(value.into(), self.name("a variable")?);
            } else if self.takes("[") {
                let index = self.sum()?;
                self.expect("]")?;
                value = Expression::Index(value.into(), index.into());
            } else {
                return Ok(value);
            }
        }
    }

    fn plain(&mut self) -> Parsed {
        match self.peek().clone() {
            Token::Number(number) => {
                self.next();
                Ok(Expression::Literal(Item::Number(number)))
            }
            Token::Word(word) => {
                self.next();
                Ok(Expression::Literal(Item::word(&word)))
            }
            Token::Sign("(") => {
                self.next();
                let whole = self.implication()?;
                self.expect(")")?;
                Ok(whole)
            }
            Token::Name(name) => self.named(&name),
            other => Err(self.error(format!("a value is missing before {}", other.text()))),
        }
    }

    fn named(&mut self, name: &str) -> Parsed {
        if let Some(place) = self.bound.iter().rposition(|bound| bound == name) {
            self.next();
            return Ok(Expression::Bound(place));
        }
        let literal = match name {
            "true" => Some(Item::Flag(true)),
            "false" => Some(Item::Flag(false)),
            "none" => Some(Item::None),
            word if WORDS.contains(&word) => Some(Item::word(word)),
            name => process(name).map(Item::Node),
        };
        if let Some(literal) = literal {
            self.next();
            return Ok(Expression::Literal(literal));
        }
        if matches!(self.tokens.get(self.at + 1), Some((Token::Sign("("), _))) {
            return self.call(name);
        }
        Err(self.error(format!(
            "`{name}` is not known: bind it with `forall {name}:`, write P0 for a process, or put \
             a word into quotation marks"
        )))
    }

    fn call(&mut self, name: &str) -> Parsed {
        let function = match name {
            "size" => Function::Size,
            "first" => Function::First,
            "processes" => Function::Processes,
            "neighbours" => Function::Neighbours,
            "quorum" => Function::Quorum,
            "count" | "messages" | "reaches" => return self.special(name),
            _ => {
                let near = FUNCTIONS.join("`, `");
                return Err(self.error(format!("no function `{name}`: there are `{near}`")));
            }
        };
        self.next();
        self.expect("(")?;
        let mut arguments = Vec::new();
        if function != Function::Processes {
            arguments.push(self.implication()?);
        }
        self.expect(")")?;
        Ok(Expression::Call(function, arguments))
    }

    /// Functions whose arguments are not all values.
    fn special(&mut self, name: &str) -> Parsed {
        self.next();
        self.expect("(")?;
        let whole = match name {
            "count" => self.quantified(Quantifier::Count)?,
            "messages" => self.messages()?,
            _ => {
                let from = self.implication()?;
                self.expect(",")?;
                let variable = self.name("a variable")?;
                self.expect(",")?;
                Expression::Reaches(from.into(), variable, self.implication()?.into())
            }
        };
        self.expect(")")?;
        Ok(whole)
    }

    /// `KIND, p, q`, each of which may be `any` or left out.
    fn messages(&mut self) -> Parsed {
        let mut kind = None;
        if !matches!(self.peek(), Token::Sign(")")) {
            kind = match self.peek().clone() {
                Token::Word(name) => {
                    self.next();
                    Some(name)
                }
                _ => Some(self.name("a kind of message, or `any`,")?).filter(|name| name != "any"),
            };
        }
        let mut ends = [None, None];
        for end in &mut ends {
            if !self.takes(",") {
                break;
            }
            if !self.takes_name("any") {
                *end = Some(Box::new(self.sum()?));
            }
        }
        let [from, to] = ends;
        Ok(Expression::Messages(kind, from, to))
    }
}

/// `P3` is process 3.
fn process(name: &str) -> Option<NodeId> {
    let digits = name.strip_prefix('P')?;
    let is_number = !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit());
    is_number.then(|| digits.parse().ok().map(NodeId)).flatten()
}
