//! Rewrites a file so that it holds all of its mutants, and asks at each place which one is on.
//!
//! ```text
//! a < b                 (if none(&[7, 8]) { a < b } else if is(7) { a > b } else { a <= b })
//! fn f() -> u8 { x }    fn f() -> u8 { if is(9) { return 0; } x }
//! A => x,               A if none(&[10]) => x,
//! ```
//!
//! What gives an `impl Iterator` is of one type: it becomes a chain of what there was and of its mutants, all but one empty.
//!
//! What is chosen instead holds no other mutant, since only one is on at a time. Each text of a mutant stands between
//! comments with its number, by which the compiler's errors find it. An operator is replaced in the text of the whole
//! chain of operators that it stands in, because precedence may change with it.

use std::{
    collections::{BTreeSet, HashMap},
    fmt::Write,
    ops::Range,
};

use syn::{
    Block, Expr, ExprBinary, ExprMatch, ExprStruct, ExprUnary, ImplItemFn, ItemFn, Pat, PatGuard, ReturnType,
    Signature, TraitItemFn, Type,
    spanned::Spanned,
    visit::{self, Visit},
};

use crate::list::{Genre, Mutant};

/// The module that knows which mutant is on: the number in the environment variable, 0 without.
pub const SWITCH: &str = r#"
#[allow(missing_docs)]
pub mod mutant {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static ON: AtomicUsize = AtomicUsize::new(usize::MAX);
    #[inline]
    pub fn is(id: usize) -> bool {
        let on = ON.load(Ordering::Relaxed);
        id == if on == usize::MAX { read() } else { on }
    }
    #[inline]
    pub fn none(ids: &[usize]) -> bool {
        !ids.iter().any(|id| is(*id))
    }
    #[cold]
    fn read() -> usize {
        let on = std::env::var("MUTANT").ok().and_then(|id| id.parse().ok()).unwrap_or(0);
        ON.store(on, Ordering::Relaxed);
        on
    }
}
"#;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum How {
    /// The expression, or one of its mutants.
    Choose,
    /// At the beginning of a body: one of its mutants is returned.
    Return,
    /// A body that gives an iterator: that, or one of its mutants.
    Chain,
    /// After a pattern: the arm is not taken when its mutant is on.
    Skip,
    /// Before a guard with `let`: the same.
    SkipToo,
    /// `const` of a function goes: what is in it is decided at run time.
    Drop,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Site {
    range: Range<usize>,
    how: How,
}

/// Where each place of a genre that begins at a byte must be rewritten.
#[derive(Default)]
struct Sites<'a> {
    of: HashMap<(Genre, usize), Site>,
    constant: Vec<Site>,
    stays_constant: Option<&'a BTreeSet<String>>,
}

impl Sites<'_> {
    fn choose(&mut self, genre: Genre, start: usize, range: Range<usize>) {
        self.of.insert((genre, start), Site { range, how: How::Choose });
    }

    fn insert(&mut self, genre: Genre, start: usize, at: usize, how: How) {
        self.of.insert((genre, start), Site { range: at..at, how });
    }

    fn function(&mut self, signature: &Signature, block: &Block) {
        if let Some(first) = block.stmts.first() {
            let span = block.brace_token.span;
            let body = span.open().byte_range().end..span.close().byte_range().start;
            let start = first.span().byte_range().start;
            if matches!(&signature.output, ReturnType::Type(_, is) if matches!(**is, Type::ImplTrait(_))) {
                self.of.insert((Genre::FnValue, start), Site { range: body, how: How::Chain });
            } else {
                self.insert(Genre::FnValue, start, body.start, How::Return);
            }
        }
        if let Some(constant) = &signature.constness
            && !self.stays_constant.is_some_and(|stays| stays.contains(&signature.ident.to_string()))
        {
            self.constant.push(Site { range: constant.span.byte_range(), how: How::Drop });
        }
    }

    /// All operators of a chain, and what stands between them.
    fn chain<'a>(node: &'a ExprBinary, operators: &mut Vec<usize>, operands: &mut Vec<&'a Expr>) {
        for side in [&*node.left, &*node.right] {
            match side {
                Expr::Binary(inner) => Self::chain(inner, operators, operands),
                operand => operands.push(operand),
            }
        }
        operators.push(node.op.span().byte_range().start);
    }

    /// What `&&` joins in a chain with `let`, in which nothing but `&&` may stand.
    fn links<'a>(expr: &'a Expr, links: &mut Vec<&'a Expr>) {
        match expr {
            Expr::Binary(node) if matches!(node.op, syn::BinOp::And(_)) => {
                Self::links(&node.left, links);
                Self::links(&node.right, links);
            }
            link => links.push(link),
        }
    }
}

fn has_let(expr: &Expr) -> bool {
    let mut links = Vec::new();
    Sites::links(expr, &mut links);
    links.iter().any(|link| matches!(link, Expr::Let(_)))
}

impl<'ast> Visit<'ast> for Sites<'_> {
    fn visit_item_fn(&mut self, node: &'ast ItemFn) {
        self.function(&node.sig, &node.block);
        visit::visit_item_fn(self, node);
    }

    fn visit_impl_item_fn(&mut self, node: &'ast ImplItemFn) {
        self.function(&node.sig, &node.block);
        visit::visit_impl_item_fn(self, node);
    }

    fn visit_trait_item_fn(&mut self, node: &'ast TraitItemFn) {
        if let Some(block) = &node.default {
            self.function(&node.sig, block);
        }
        visit::visit_trait_item_fn(self, node);
    }

    fn visit_expr(&mut self, node: &'ast Expr) {
        if !matches!(node, Expr::Binary(_)) || !has_let(node) {
            return visit::visit_expr(self, node);
        }
        let mut links = Vec::new();
        Self::links(node, &mut links);
        for link in links {
            self.visit_expr(link);
        }
    }

    fn visit_expr_binary(&mut self, node: &'ast ExprBinary) {
        let (mut operators, mut operands) = (Vec::new(), Vec::new());
        Self::chain(node, &mut operators, &mut operands);
        for operator in operators {
            self.choose(Genre::BinaryOperator, operator, node.span().byte_range());
        }
        for operand in operands {
            self.visit_expr(operand);
        }
    }

    fn visit_expr_unary(&mut self, node: &'ast ExprUnary) {
        let range = node.span().byte_range();
        self.choose(Genre::UnaryOperator, range.start, range);
        visit::visit_expr_unary(self, node);
    }

    fn visit_expr_struct(&mut self, node: &'ast ExprStruct) {
        for field in &node.fields {
            self.choose(Genre::StructField, field.span().byte_range().start, node.span().byte_range());
        }
        visit::visit_expr_struct(self, node);
    }

    fn visit_expr_match(&mut self, node: &'ast ExprMatch) {
        // Without one that takes everything no other can go.
        if node.arms.iter().any(|arm| matches!(arm.pat, Pat::Wild(_))) {
            for arm in &node.arms {
                let (start, at) = (arm.span().byte_range().start, arm.pat.span().byte_range().end);
                self.insert(Genre::MatchArm, start, at, How::Skip);
            }
        }
        visit::visit_expr_match(self, node);
    }

    fn visit_pat_guard(&mut self, node: &'ast PatGuard) {
        let guard = node.guard.span().byte_range();
        if has_let(&node.guard) {
            let at = node.if_token.span.byte_range().end;
            self.insert(Genre::MatchArmGuard, guard.start, at, How::SkipToo);
        } else {
            self.choose(Genre::MatchArmGuard, guard.start, guard);
        }
        visit::visit_pat_guard(self, node);
    }
}

/// The text with all of these mutants in it, and the numbers of those that have no place in it. The functions named in
/// `stays_constant` stay `const`.
pub fn rewrite(
    text: &str,
    mutants: &[(usize, &Mutant)],
    stays_constant: &BTreeSet<String>,
) -> syn::Result<(String, Vec<usize>)> {
    let file = syn::parse_file(text)?;
    let mut sites = Sites { stays_constant: Some(stays_constant), ..Sites::default() };
    sites.visit_file(&file);
    let (mut chosen, mut without): (HashMap<Site, Vec<(usize, &Mutant)>>, _) = (HashMap::new(), Vec::new());
    for (id, mutant) in mutants {
        match sites.of.get(&(mutant.genre, mutant.start)) {
            // Without its `let` the arm would lack what that binds.
            Some(Site { how: How::SkipToo, .. }) if mutant.replacement != "false" => without.push(*id),
            Some(site) => chosen.entry(site.clone()).or_default().push((*id, mutant)),
            None => without.push(*id),
        }
    }
    let constant = sites.constant.into_iter().map(|site| (site, Vec::new()));
    let mut all: Vec<_> = chosen.into_iter().chain(constant).collect();
    // Outer ones first.
    all.sort_by_key(|(site, _)| (site.range.start, usize::MAX - site.range.end));
    let mut out = String::new();
    Writer { text, sites: all.into_iter().peekable() }.write(0..text.len(), &mut out);
    Ok((out, without))
}

struct Writer<'a, I: Iterator> {
    text: &'a str,
    sites: std::iter::Peekable<I>,
}

impl<'a, I: Iterator<Item = (Site, Vec<(usize, &'a Mutant)>)>> Writer<'a, I> {
    fn write(&mut self, range: Range<usize>, out: &mut String) {
        let mut at = range.start;
        while let Some((site, mutants)) = self.sites.next_if(|(site, _)| site.range.start < range.end) {
            out.push_str(&self.text[at..site.range.start]);
            at = site.range.end;
            let ids: Vec<String> = mutants.iter().map(|(id, _)| id.to_string()).collect();
            let ids = ids.join(",");
            let none = format!("/*<{ids}*/crate::mutant::none(&[{ids}])/*>*/");
            // Writing to a String does not fail.
            _ = match site.how {
                How::Choose => self.choose(&site, &mutants, &none, out),
                How::Return => mutants.iter().try_for_each(|(id, mutant)| {
                    let value = &mutant.replacement;
                    write!(out, "/*<{id}*/if crate::mutant::is({id}) {{ return {value}; }}/*>*/")
                }),
                How::Chain => self.chain(&site, &mutants, &none, out),
                How::Skip => write!(out, " if {none}"),
                How::SkipToo => write!(out, " {none} && "),
                How::Drop => Ok(()),
            };
        }
        out.push_str(&self.text[at..range.end]);
    }

    fn chain(
        &mut self,
        site: &Site,
        mutants: &[(usize, &Mutant)],
        none: &str,
        out: &mut String,
    ) -> std::fmt::Result {
        write!(out, "{none}.then(move || {{")?;
        self.write(site.range.clone(), out);
        write!(out, "}}).into_iter().flatten()")?;
        mutants.iter().try_for_each(|(id, mutant)| {
            let value = &mutant.replacement;
            write!(
                out,
                "/*<{id}*/.chain(crate::mutant::is({id}).then(|| {value}).into_iter().flatten())/*>*/"
            )
        })
    }

    fn choose(
        &mut self,
        site: &Site,
        mutants: &[(usize, &Mutant)],
        none: &str,
        out: &mut String,
    ) -> std::fmt::Result {
        write!(out, "(if {none} {{ ")?;
        self.write(site.range.clone(), out);
        for (nth, (id, mutant)) in mutants.iter().enumerate() {
            if nth + 1 < mutants.len() {
                write!(out, " }} else if crate::mutant::is({id}) {{")?;
            } else {
                write!(out, " }} else {{")?;
            }
            let before = &self.text[site.range.start..mutant.start];
            let after = &self.text[mutant.end..site.range.end];
            write!(out, "/*<{id}*/ {before}{}{after} /*>*/", mutant.replacement)?;
        }
        out.push_str(" })");
        Ok(())
    }
}

/// The numbers of the mutants in whose text the byte of a rewritten file is.
pub fn at(text: &str, byte: usize) -> Vec<usize> {
    let mut open = Vec::new();
    let mut from = 0;
    while let Some(next) = text[from..byte].find("/*").map(|next| from + next) {
        from = next + 2;
        if text[from..].starts_with(">*/") {
            open.pop();
        } else if let Some(ids) = text[from..].strip_prefix('<').and_then(|rest| rest.split_once("*/")) {
            open.push(ids.0);
        }
    }
    let innermost = open.last().into_iter();
    innermost.flat_map(|ids| ids.split(',')).filter_map(|id| id.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every place where `from` stands becomes `to`.
    fn mutants(text: &str, genre: Genre, from: &str, to: &[&str]) -> Vec<Mutant> {
        let places = text.match_indices(from).flat_map(|(start, _)| to.iter().map(move |to| (start, to)));
        let mutant = |(start, to): (usize, &&str)| Mutant {
            name: String::new(),
            file: String::new(),
            line: 1,
            genre,
            start,
            end: start + from.len(),
            replacement: (*to).to_owned(),
        };
        places.map(mutant).collect()
    }

    /// Rewritten, without the comments and with less around it.
    fn rewritten(text: &str, mutants: &[Mutant]) -> String {
        let numbered: Vec<(usize, &Mutant)> = (1..).zip(mutants).collect();
        let (mut out, without) = rewrite(text, &numbered, &BTreeSet::new()).unwrap();
        assert_eq!(without, Vec::<usize>::new());
        syn::parse_file(&out).unwrap();
        while let Some((start, length)) = out.find("/*").zip(out.split_once("*/")) {
            out.replace_range(start..length.0.len() + 2, "");
        }
        out.replace("crate::mutant::", "").split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn an_operator_is_replaced_in_the_whole_of_its_chain() {
        let text = "fn f() { g(a && b && c) }";
        let all = mutants(text, Genre::BinaryOperator, "&&", &["||"]);
        assert_eq!(
            rewritten(text, &all),
            "fn f() { g((if none(&[1,2]) { a && b && c } else if is(1) { a || b && c } else { a && b || c })) }"
        );
    }

    #[test]
    fn mutants_within_another_ones_place_are_not_in_its_text() {
        let text = "fn f() { !g(a < b) }";
        let mut all = mutants(text, Genre::UnaryOperator, "!", &[""]);
        all.extend(mutants(text, Genre::BinaryOperator, "<", &[">"]));
        assert_eq!(
            rewritten(text, &all),
            "fn f() { (if none(&[1]) { !g((if none(&[2]) { a < b } else { a > b })) } else { g(a < b) }) }"
        );
    }

    #[test]
    fn a_body_an_arm_and_a_guard_are_left_when_their_mutant_is_on() {
        let text = "const fn f() -> u8 { match x { A => 1, B if y => 2, _ => 3 } }";
        let mut all = mutants(text, Genre::FnValue, "match", &["0", "1"]);
        all.extend(mutants(text, Genre::MatchArm, "A", &[""]));
        all.extend(mutants(text, Genre::MatchArmGuard, "y", &["true"]));
        assert_eq!(
            rewritten(text, &all),
            "fn f() -> u8 {if is(1) { return 0; }if is(2) { return 1; } match x { A if none(&[3]) => 1, \
             B if (if none(&[4]) { y } else { true }) => 2, _ => 3 } }"
        );
    }

    #[test]
    fn an_iterator_is_chained_with_its_mutants() {
        let text = "fn f(&self) -> impl Iterator<Item = u8> { self.a.iter() }";
        let all = mutants(text, Genre::FnValue, "self.a.iter()", &["empty()", "once(1)"]);
        assert_eq!(
            rewritten(text, &all),
            "fn f(&self) -> impl Iterator<Item = u8> {none(&[1,2]).then(move || { self.a.iter() }).into_iter().flatten()\
             .chain(is(1).then(|| empty()).into_iter().flatten()).chain(is(2).then(|| once(1)).into_iter().flatten())}"
        );
    }

    #[test]
    fn and_stays_in_a_chain_with_let() {
        let text = "fn f() { if let A = b && c == d && !e {} }";
        let and = mutants(text, Genre::BinaryOperator, "&&", &["||"]);
        let (_, without) = rewrite(text, &[(1, &and[0]), (2, &and[1])], &BTreeSet::new()).unwrap();
        assert_eq!(without, [1, 2]);
        let equals = mutants(text, Genre::BinaryOperator, "==", &["!="]);
        assert_eq!(
            rewritten(text, &equals),
            "fn f() { if let A = b && (if none(&[1]) { c == d } else { c != d }) && !e {} }"
        );
    }

    #[test]
    fn an_error_of_the_compiler_is_that_of_the_innermost_mutant() {
        let text = "a /*<3*/ b /*<4,5*/ c /*>*/ d /*>*/ e";
        let found = |what| at(text, text.find(what).unwrap());
        assert_eq!(
            [found("a"), found("b"), found("c"), found("d"), found("e")],
            [vec![], vec![3], vec![4, 5], vec![3], vec![]]
        );
    }
}
