//! One copy of the sources with every mutant in it, each behind a switch that is read at run time.
//!
//! A mutant of `cargo mutants --list --json` is a place and a replacement. `a < b` becomes
//! `(if is(7) { (a) > (b) } else { a < b })`, a function whose value is replaced begins with
//! `if is(8) { return REPLACEMENT; }`, and so on. Only one mutant is on at a time, so the
//! replaced branch repeats its operands without switches and the text stays small.

use std::{collections::BTreeMap, ops::Range};

use anyhow::{Context, Result};
use serde_json::Value;
use syn::{
    Arm, Block, Expr, ExprBinary, ExprStruct, ExprUnary, ImplItemFn, ItemFn, Signature,
    TraitItemFn, spanned::Spanned, visit::Visit,
};

/// A mutant of the list of cargo-mutants.
#[derive(Clone, Debug)]
pub struct Mutant {
    /// Its place in the list, from 1.
    pub id: u32,
    /// The path of its file in the workspace.
    pub file: String,
    /// `file:line:column: description`.
    pub name: String,
    genre: String,
    line: usize,
    column: usize,
    replacement: String,
}

impl Mutant {
    /// Reads the list in order.
    pub fn list(json: &str) -> Result<Vec<Self>> {
        let list: Vec<Value> = serde_json::from_str(json).context("the list is not JSON")?;
        let mutants: Result<Vec<_>> =
            list.iter().zip(1..).map(|(value, id)| Self::read(id, value)).collect();
        // The configuration leaves these out, but cargo-mutants 27 lists them all the same.
        let is_data = |mutant: &Self| {
            mutant.genre == "StructField"
                && ["Costs", "About"].iter().any(|name| mutant.name.contains(name))
        };
        Ok(mutants?.into_iter().filter(|mutant| !is_data(mutant)).collect())
    }

    fn read(id: u32, value: &Value) -> Result<Self> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let number = |value: &Value| value.as_u64().and_then(|n| usize::try_from(n).ok());
        let start = &value["span"]["start"];
        (|| {
            Some(Self {
                id,
                file: text(&value["file"])?,
                name: text(&value["name"])?.replace('\n', " "),
                genre: text(&value["genre"])?,
                line: number(&start["line"])?,
                column: number(&start["column"])?,
                replacement: text(&value["replacement"])?,
            })
        })()
        .with_context(|| format!("unexpected entry in the list: {value}"))
    }
}

/// The text of a file with its mutants in it, and the mutants that have no switch because they
/// are in a constant.
pub fn switch(text: &str, mutants: &[&Mutant]) -> Result<(String, Vec<u32>)> {
    let mut at: BTreeMap<(&str, usize, usize), Vec<&Mutant>> = BTreeMap::new();
    for mutant in mutants {
        at.entry((&mutant.genre, mutant.line, mutant.column)).or_default().push(mutant);
    }
    let mut finder = Finder { text, at, constant: false, sites: Vec::new() };
    finder.visit_file(&syn::parse_file(text)?);
    let left = finder.at.values().flatten().map(|mutant| mutant.id).collect();
    // Stable: of two sites with one range the outer one was found first.
    finder.sites.sort_by_key(|site| (site.range.start, std::cmp::Reverse(site.range.end)));
    Ok((render(text, &finder.sites, 0, 0..text.len()), left))
}

/// A place that is written anew.
struct Site<'a> {
    range: Range<usize>,
    kind: Kind,
    mutants: Vec<&'a Mutant>,
}

enum Kind {
    /// The start of a function's body.
    Body,
    /// The whole body of a function that returns an `impl Iterator`: each value has its own type.
    Opaque,
    /// `left op right`.
    Binary { left: Range<usize>, op: Range<usize>, right: Range<usize> },
    /// `op operand`, of which the operator can be deleted.
    Unary { operand: Range<usize> },
    /// The condition of a match arm.
    Guard,
    /// The end of the pattern of a match arm that can be deleted.
    Pattern,
    /// The value of a field that can come from the base of its struct expression.
    Field { name: String, base: Range<usize>, short: bool },
}

struct Finder<'a> {
    text: &'a str,
    at: BTreeMap<(&'a str, usize, usize), Vec<&'a Mutant>>,
    /// Whether this is evaluated by the compiler, which cannot read a switch.
    constant: bool,
    sites: Vec<Site<'a>>,
}

impl<'a> Finder<'a> {
    /// Takes the mutants at the start of a node.
    fn take(&mut self, genre: &'static str, node: &impl Spanned) -> Vec<&'a Mutant> {
        if self.constant {
            return Vec::new();
        }
        let start = node.span().start();
        self.at.remove(&(genre, start.line, start.column + 1)).unwrap_or_default()
    }

    fn add(&mut self, range: Range<usize>, kind: Kind, mutants: Vec<&'a Mutant>) {
        if !mutants.is_empty() {
            self.sites.push(Site { range, kind, mutants });
        }
    }

    fn function(&mut self, signature: &Signature, block: &Block, visit: impl FnOnce(&mut Self)) {
        self.within(signature.constness.is_some(), |finder| {
            if let Some(first) = block.stmts.first() {
                let mutants = finder.take("FnValue", first);
                let braces = range(block);
                let inner = braces.start + 1..braces.end - 1;
                let output = finder.text[range(&signature.output)].trim_start_matches("->");
                if output.trim_start().starts_with("impl ") {
                    finder.add(inner, Kind::Opaque, mutants);
                } else {
                    finder.add(inner.start..inner.start, Kind::Body, mutants);
                }
            }
            visit(finder);
        });
    }

    fn within(&mut self, constant: bool, visit: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.constant, constant);
        visit(self);
        self.constant = before;
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.function(&item.sig, &item.block, |finder| syn::visit::visit_item_fn(finder, item));
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.function(&item.sig, &item.block, |finder| {
            syn::visit::visit_impl_item_fn(finder, item);
        });
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.sig, block, |finder| {
                syn::visit::visit_trait_item_fn(finder, item);
            });
        }
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.within(true, |finder| syn::visit::visit_item_const(finder, item));
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        self.within(true, |finder| syn::visit::visit_item_static(finder, item));
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.within(true, |finder| syn::visit::visit_impl_item_const(finder, item));
    }

    /// A closure in a constant is called at run time.
    fn visit_expr_closure(&mut self, node: &'ast syn::ExprClosure) {
        self.within(false, |finder| syn::visit::visit_expr_closure(finder, node));
    }

    fn visit_expr_binary(&mut self, node: &'ast ExprBinary) {
        // `let` chains have no `||`: such a mutant is left over, as one that cannot be built.
        if !has_let(&node.left) && !has_let(&node.right) {
            let mutants = self.take("BinaryOperator", &node.op);
            let (left, op, right) = (range(&node.left), range(&node.op), range(&node.right));
            self.add(left.start..right.end, Kind::Binary { left, op, right }, mutants);
        }
        syn::visit::visit_expr_binary(self, node);
    }

    fn visit_expr_unary(&mut self, node: &'ast ExprUnary) {
        let mutants = self.take("UnaryOperator", &node.op);
        self.add(range(node), Kind::Unary { operand: range(&node.expr) }, mutants);
        syn::visit::visit_expr_unary(self, node);
    }

    fn visit_arm(&mut self, arm: &'ast Arm) {
        let mutants = self.take("MatchArm", arm);
        let end = range(&arm.pat).end;
        self.add(end..end, Kind::Pattern, mutants);
        if let Some((_, guard)) = &arm.guard {
            let mutants = self.take("MatchArmGuard", guard);
            self.add(range(guard), Kind::Guard, mutants);
        }
        syn::visit::visit_arm(self, arm);
    }

    fn visit_expr_struct(&mut self, node: &'ast ExprStruct) {
        if let Some(base) = &node.rest {
            for field in &node.fields {
                let mutants = self.take("StructField", field);
                let name = self.text[range(&field.member)].to_owned();
                let short = field.colon_token.is_none();
                let kind = Kind::Field { name, base: range(base), short };
                self.add(range(&field.expr), kind, mutants);
            }
        }
        syn::visit::visit_expr_struct(self, node);
    }
}

fn range(node: &impl Spanned) -> Range<usize> {
    node.span().byte_range()
}

fn has_let(expression: &Expr) -> bool {
    match expression {
        Expr::Let(_) => true,
        Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        _ => false,
    }
}

/// The text of a range, with the sites in it from the number `first` on.
fn render(text: &str, sites: &[Site<'_>], first: usize, range: Range<usize>) -> String {
    let mut out = String::new();
    let mut done = range.start;
    for (number, site) in sites.iter().enumerate().skip(first) {
        if site.range.start < done || site.range.end > range.end {
            continue;
        }
        out.push_str(&text[done..site.range.start]);
        out.push_str(&write(text, sites, number));
        done = site.range.end;
    }
    out.push_str(&text[done..range.end]);
    out
}

fn write(text: &str, sites: &[Site<'_>], number: usize) -> String {
    let Site { range, kind, mutants } = &sites[number];
    let with_switches = |range: &Range<usize>| render(text, sites, number + 1, range.clone());
    let mut out = String::new();
    match kind {
        Kind::Body => {
            for Mutant { id, replacement, .. } in mutants {
                out += &format!(" if crate::mutant::is({id}) {{ return {replacement}; }}");
            }
        }
        Kind::Opaque => {
            for Mutant { id, replacement, .. } in mutants {
                out += &format!(
                    " if crate::mutant::is({id}) {{ crate::mutant::Either::One({replacement}) }} \
                     else {{ crate::mutant::Either::Other("
                );
            }
            out += &format!("{{{}}}", with_switches(range));
            out += &") } ".repeat(mutants.len());
        }
        Kind::Binary { left, op, right } => {
            out.push('(');
            for Mutant { id, replacement, .. } in mutants {
                let (left, right) = (&text[left.clone()], &text[right.clone()]);
                out += &format!(
                    "if crate::mutant::is({id}) {{ ({left}) {replacement} ({right}) }} else "
                );
            }
            let (left, right) = (with_switches(left), with_switches(right));
            out += &format!("{{ {left} {} {right} }})", &text[op.clone()]);
        }
        Kind::Unary { operand } => {
            let plain = &text[operand.clone()];
            let op = &text[range.start..operand.start];
            let id = mutants[0].id;
            let operand = with_switches(operand);
            out = format!("(if crate::mutant::is({id}) {{ {plain} }} else {{ {op}{operand} }})");
        }
        Kind::Guard => {
            let of = |value: &str| mutants.iter().find(|mutant| mutant.replacement == value);
            let always = of("true").map(|mutant| format!("crate::mutant::is({}) || ", mutant.id));
            let never = of("false").map(|mutant| format!("!crate::mutant::is({}) && ", mutant.id));
            out = format!(
                "({}{}({}))",
                always.unwrap_or_default(),
                never.unwrap_or_default(),
                with_switches(range)
            );
        }
        Kind::Pattern => out = format!(" if !crate::mutant::is({})", mutants[0].id),
        Kind::Field { name, base, short } => {
            let label = if *short { format!("{name}: ") } else { String::new() };
            out = format!(
                "{label}(if crate::mutant::is({}) {{ ({}).{name} }} else {{ {} }})",
                mutants[0].id,
                &text[base.clone()],
                with_switches(range)
            );
        }
    }
    out
}
