//! The pages: every link is valid, and README.md takes five minutes to read.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use headgate_core::model::reason::Reason;
use headgate_harness::{
    pages::{fragments, prose, slug},
    root,
};

/// Folders with pages of others.
const NOT_OURS: [&str; 3] = [".git", "node_modules", "target"];
/// The maximum number of words in README.md.
const FIVE_MINUTES: usize = 1_400;

/// All files of a kind in a folder, recursively.
fn files(folder: &Path, is_one: fn(&Path) -> bool, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            if !NOT_OURS.iter().any(|name| entry.file_name() == *name) {
                files(&entry.path(), is_one, found);
            }
        } else if is_one(&entry.path()) {
            found.push(entry.path());
        }
    }
}

fn is_page(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "md")
}

/// A line without code in backticks.
fn without_code(line: &str) -> String {
    let parts: Vec<&str> = line.split('`').collect();
    let is_code = |at: usize| at % 2 == 1 && at + 1 < parts.len();
    parts.iter().enumerate().filter(|(at, _)| !is_code(*at)).map(|(_, part)| *part).collect()
}

/// The link targets of a page, each with its line number.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut links = Vec::new();
    for (number, line) in prose(text) {
        for after in without_code(line).split("](").skip(1) {
            let to = after.split([')', ' ']).next().unwrap_or_default();
            links.push((number, to.to_owned()));
        }
    }
    links
}

/// The error of a page's link, if there is one. Links to other sites are not checked.
fn wrong(page: &Path, link: &str) -> Option<&'static str> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (file, fragment) = link.split_once('#').unwrap_or((link, ""));
    let file = if file.is_empty() { page.to_owned() } else { page.parent().unwrap().join(file) };
    if !file.exists() {
        return Some("there is no such file");
    }
    if fragment.is_empty() || !is_page(&file) {
        return None;
    }
    let fragments = fragments(&fs::read_to_string(&file).unwrap());
    (!fragments.contains(fragment)).then_some("the page has no such heading")
}

#[test]
fn every_link_of_a_page_leads_to_a_file_and_a_heading_that_exist() {
    let mut pages_found = Vec::new();
    files(root(), is_page, &mut pages_found);
    assert!(pages_found.len() > 20, "expected the pages of the repository, found {pages_found:?}");
    let mut broken = Vec::new();
    for page in &pages_found {
        let text = fs::read_to_string(page).unwrap();
        let name = page.strip_prefix(root()).unwrap().display();
        for (line, link) in links(&text) {
            broken.extend(wrong(page, &link).map(|why| format!("{name}:{line}: {link}: {why}")));
        }
    }
    assert!(broken.is_empty(), "these links lead nowhere: {broken:#?}");
}

#[test]
fn readme_is_for_five_minutes() {
    let words = fs::read_to_string(root().join("README.md")).unwrap().split_whitespace().count();
    assert!(
        words <= FIVE_MINUTES,
        "README.md has {words} words; move text to docs/ until it has {FIVE_MINUTES}"
    );
}

/// Pages that may contain IAM commands. Another test compares the commands of the other pages with the first one.
const ABOUT_IAM: [&str; 3] = ["docs/install/iam.md", "docs/getting-started/eks.md", "README.md"];

#[test]
fn commands_about_iam_stand_in_one_page_and_in_those_that_newcomers_type() {
    let mut pages = Vec::new();
    files(root(), is_page, &mut pages);
    for page in pages {
        let name = page.strip_prefix(root()).unwrap().display().to_string();
        let text = fs::read_to_string(&page).unwrap();
        let commands = ["aws iam create", "aws iam attach", "aws iam put", "eksctl create"];
        let found = commands.iter().any(|command| text.contains(command));
        assert_eq!(
            found,
            ABOUT_IAM.contains(&&*name),
            "{name}: link to {} for commands about IAM",
            ABOUT_IAM[0]
        );
    }
}

/// Generated pages, as paths from `docs`.
const GENERATED: [&str; 5] = [
    "reference/api.md",
    "reference/cli.md",
    "reference/events.md",
    "reference/limits.md",
    "reference/metrics.md",
];
/// The maximum number of words in all handwritten user pages, including commands.
const WORDS: usize = 35_000;
/// The maximum number of words in a paragraph. `make lint` also checks this for the pages in tools/style/checked.txt.
const PARAGRAPH: usize = 80;

/// The paragraphs and items of lists of a page, without tables and code.
fn paragraphs(text: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    for (_, line) in prose(text) {
        let is_number = |c: char| c.is_ascii_digit();
        let is_item = line.starts_with("- ") || line.trim_start_matches(is_number).starts_with(". ");
        if line.is_empty() || is_item {
            all.push(String::new());
        }
        let last = all.last_mut().unwrap();
        last.push_str(if line.starts_with('|') { "" } else { line });
        last.push('\n');
    }
    all
}

/// A word has a letter or a digit.
fn words(text: &str) -> usize {
    text.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count()
}

#[test]
fn pages_for_users_are_short_and_so_are_their_paragraphs() {
    let docs = root().join("docs");
    let mut pages = Vec::new();
    files(&docs, is_page, &mut pages);
    let is_counted = |page: &PathBuf| {
        let name = page.strip_prefix(&docs).unwrap();
        !name.starts_with("contributing") && !GENERATED.iter().any(|generated| name == Path::new(generated))
    };
    pages.retain(is_counted);
    pages.push(root().join("README.md"));
    let (mut counted, mut long) = (0, Vec::new());
    for page in &pages {
        let text = fs::read_to_string(page).unwrap();
        counted += words(&text);
        let all = paragraphs(&text).into_iter();
        long.extend(all.filter(|paragraph| words(paragraph) > PARAGRAPH).map(|paragraph| (page, paragraph)));
    }
    assert!(pages.len() > 35, "{pages:?}");
    assert!(long.is_empty(), "split these paragraphs of more than {PARAGRAPH} words: {long:#?}");
    assert!(counted <= WORDS, "{counted} words; cut what no reader needs until {WORDS} are left");
}

#[test]
fn the_summary_of_the_site_names_every_page_of_the_docs_once() {
    let docs = root().join("docs");
    let mut pages = Vec::new();
    files(&docs, is_page, &mut pages);
    let mut pages: Vec<PathBuf> = pages.into_iter().filter(|page| !page.ends_with("SUMMARY.md")).collect();
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let mut named: Vec<PathBuf> = links(&summary).into_iter().map(|(_, link)| docs.join(link)).collect();
    pages.sort();
    named.sort();
    assert_eq!(named, pages, "docs/SUMMARY.md: add each page of docs/ once");
}

#[test]
fn a_heading_is_named_as_github_does() {
    for (heading, name) in [
        ("Readiness gate", "readiness-gate"),
        (" See it: `make demo`", "see-it-make-demo"),
        ("Only more work, or a wake-up too many: 21", "only-more-work-or-a-wake-up-too-many-21"),
        ("The [plan](plan.md), `snake_case`", "the-plan-snake_case"),
        ("How, and *why*?", "how-and-why"),
    ] {
        assert_eq!(slug(heading), name);
    }
    let again = fragments("# A\n## B\ntext\n## B\n#no\n```\n# C\n```\n");
    assert_eq!(again.iter().map(String::as_str).collect::<Vec<_>>(), ["a", "b", "b-1"]);
}

#[test]
fn paragraphs_and_items_are_told_apart() {
    let all = paragraphs("# A\n\none\ntwo\n- three\n1. four\n| five |\n\n```\nsix\n```\n");
    assert_eq!(all.iter().map(|part| words(part)).collect::<Vec<_>>(), [1, 2, 1, 2, 0]);
    assert_eq!(words("| a | `b` – | --- |"), 2);
}

#[test]
fn links_are_found_outside_of_code_only() {
    let text = "[a](a.md) `[no](no.md)` ![b](b.svg)\n```text\n[no](no.md)\n```\n[`c`](c.md#d \"title\")\n";
    let found = links(text);
    let expected: [(usize, &str); 3] = [(1, "a.md"), (1, "b.svg"), (5, "c.md#d")];
    assert_eq!(found, expected.map(|(line, link)| (line, link.to_owned())));
}

#[test]
fn every_reason_word_has_a_section_and_every_section_is_of_a_word() {
    let text = fs::read_to_string(root().join("docs/reference/reasons.md")).unwrap();
    let mut sections = BTreeMap::new();
    for part in text.split("\n### `").skip(1) {
        let (word, rest) = part.split_once("`\n").unwrap();
        let said = rest.split("\n## ").next().unwrap().trim();
        assert!(said.len() > 20 && said.ends_with(['.', ')']), "docs/reference/reasons.md, {word}: {said}");
        assert!(sections.insert(word.to_owned(), slug(word)).is_none(), "{word} has two sections");
    }
    let known: BTreeSet<String> = Reason::ALL.iter().map(|reason| reason.as_str().to_owned()).collect();
    let shown: BTreeSet<String> = sections.keys().cloned().collect();
    assert_eq!(shown, known, "docs/reference/reasons.md has a section for each word, and for no other");
    assert!(known.len() <= 75, "{} words", known.len());
    // The end of a link in an Event.
    let fragments = fragments(&text);
    for reason in Reason::ALL {
        let fragment = reason.as_str().to_ascii_lowercase();
        assert!(fragments.contains(fragment.as_str()), "no heading has the fragment {fragment}");
    }
}
