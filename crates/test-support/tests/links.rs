//! Links of the Markdown files: every page, heading and image that they name is there, and the
//! manual lists all of its pages. Addresses of the network are not visited.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Component, Path};

use memweir_test_support::root;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// Folders of the manual that `make docs` makes, below `docs`.
const MADE: [&str; 2] = ["docs/api/rust/", "docs/api/python/"];

/// The Markdown files of the project by their paths from its root.
fn pages() -> BTreeMap<String, Page> {
    let folders = ["", "docs", "python", "evidence/max-weight"];
    let mut pages = BTreeMap::new();
    for folder in folders {
        for entry in std::fs::read_dir(root().join(folder)).expect(folder) {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|ending| ending == "md") {
                let text = std::fs::read_to_string(&path).unwrap();
                let name = path.strip_prefix(root()).unwrap().to_str().unwrap();
                pages.insert(name.to_owned(), Page::read(&text));
            }
        }
    }
    pages
}

/// A page as far as links matter.
#[derive(Debug, Default, PartialEq)]
struct Page {
    /// Targets of links and images.
    links: Vec<String>,
    /// Ids of headings, as mdBook and GitHub make them of the text.
    headings: BTreeSet<String>,
}

impl Page {
    fn read(markdown: &str) -> Self {
        let mut page = Self::default();
        let mut seen = HashMap::new();
        let mut heading: Option<String> = None;
        for event in Parser::new_ext(markdown, Options::ENABLE_TABLES) {
            match event {
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    let id = id_of(&heading.take().expect("a heading that began"));
                    let count = seen.entry(id.clone()).or_insert(0);
                    let unique = if *count == 0 { id } else { format!("{id}-{count}") };
                    *count += 1;
                    page.headings.insert(unique);
                }
                Event::Text(text) | Event::Code(text) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&text);
                    }
                }
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    page.links.push(dest_url.into_string());
                }
                _ => {}
            }
        }
        page
    }
}

fn id_of(heading: &str) -> String {
    let kept = |letter: char| match letter {
        '_' | '-' => Some(letter),
        _ if letter.is_whitespace() => Some('-'),
        _ if letter.is_alphanumeric() => Some(letter.to_ascii_lowercase()),
        _ => None,
    };
    heading.chars().filter_map(kept).collect()
}

/// The path from the root of the project that `link` names on the page `from`; `None` if it leads
/// out of the project.
fn resolved(from: &str, link: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for component in Path::new(link).components() {
        match component {
            Component::ParentDir => {
                parts.pop()?;
            }
            Component::Normal(part) => parts.push(part.to_str()?),
            Component::CurDir => {}
            _ => return None,
        }
    }
    Some(parts.join("/"))
}

/// The reason why a link leads nowhere.
fn fault(pages: &BTreeMap<String, Page>, from: &str, link: &str) -> Option<String> {
    if link.starts_with("https://") || link.starts_with("http://") {
        return None;
    }
    let (path, heading) = link.split_once('#').map_or((link, None), |(p, h)| (p, Some(h)));
    let target = if path.is_empty() { from.to_owned() } else { resolved(from, path)? };
    if MADE.iter().any(|folder| target.starts_with(folder)) {
        return made_fault(&target);
    }
    if !root().join(&target).exists() {
        return Some(format!("{from}: {link}: there is no {target}"));
    }
    if from.starts_with("docs/") && !target.starts_with("docs/") {
        return Some(format!("{from}: {link}: the site ends at docs/"));
    }
    let known = pages.get(&target).zip(heading);
    known
        .filter(|(page, heading)| !page.headings.contains(*heading))
        .map(|_| format!("{from}: {link}: {target} has no such heading"))
}

/// The reason why a page of the API documentation will not be made: it names no crate.
fn made_fault(target: &str) -> Option<String> {
    let rest = target.strip_prefix(MADE[0])?;
    let name = rest.split('/').next()?.strip_prefix("memweir_").unwrap_or("cli").replace('_', "-");
    let homes = [format!("crates/{name}"), format!("plugins/{name}")];
    let exists = homes.iter().any(|home| root().join(home).join("Cargo.toml").exists());
    (!exists).then(|| format!("{target}: there is no crate {name}"))
}

#[test]
fn every_link_of_the_project_leads_somewhere() {
    let pages = pages();
    let links = pages.iter().flat_map(|(from, page)| page.links.iter().map(move |l| (from, l)));
    let faults: Vec<String> = links.filter_map(|(from, link)| fault(&pages, from, link)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_manual_lists_each_of_its_pages_once() {
    let pages = pages();
    let mut listed = pages["docs/SUMMARY.md"].links.clone();
    listed.sort();
    let names = pages.keys().filter_map(|page| page.strip_prefix("docs/"));
    let names: Vec<&str> = names.filter(|name| *name != "SUMMARY.md").collect();
    assert_eq!(listed, names);
}

#[test]
fn links_that_lead_nowhere_are_told() {
    let page = Page::read(
        "# One `--two`: three\n\n## A\n\n## A\n\n[x](b.md#a-1) ![y](z.svg)\n\n```\n[no](no.md)\n```\n",
    );
    let ids = ["one---two-three", "a", "a-1"].map(str::to_owned);
    assert_eq!(page, Page { links: vec!["b.md#a-1".into(), "z.svg".into()], headings: ids.into() });

    let pages = BTreeMap::from([("docs/run.md".to_owned(), page)]);
    let fault = |link: &str| fault(&pages, "docs/run.md", link);
    for good in ["run.md#a-1", "#a", "https://example.org/x", "api/rust/memweir_core/index.html"] {
        assert_eq!(fault(good), None, "{good}");
    }
    for (link, reason) in [
        ("run.md#b", "no such heading"),
        ("#b", "no such heading"),
        ("walk.md", "there is no docs/walk.md"),
        ("../README.md", "the site ends"),
        ("api/rust/memweir_cora/index.html", "no crate cora"),
    ] {
        let told = fault(link);
        assert!(told.as_ref().is_some_and(|told| told.contains(reason)), "{link}: {told:?}");
    }
}
