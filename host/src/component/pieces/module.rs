//! One core module: its functions rewritten, and the cutters that they call added behind all others, so that no index changes.

use std::borrow::Cow;

use wasmparser::{CodeSectionReader, FunctionSectionReader};

use super::facts::Facts;
use super::plan::Plan;
use super::sections::{Draft, Items, Section, content, put_sized, sections};
use super::{Rewriting, Unsplittable, body, names};

const MODULE: &[u8] = b"\0asm\x01\0\0\0";
const CUSTOM: u8 = 0;
const TYPE: u8 = 1;
const IMPORT: u8 = 2;
const FUNCTION: u8 = 3;
const TABLE: u8 = 4;
const MEMORY: u8 = 5;
const ELEMENT: u8 = 9;
const CODE: u8 = 10;
const DATA: u8 = 11;

impl Rewriting {
    pub(super) fn module<'a>(&mut self, bytes: &'a [u8], at: usize) -> Result<Cow<'a, [u8]>, Unsplittable> {
        let found = Found::within(bytes, at)?;
        let (Some(functions), Some(code)) = (&found.functions, &found.code) else {
            // Whoever has no function, or only one of the two, has no body.
            return Ok(Cow::Borrowed(bytes));
        };
        let facts = found.facts()?;
        let mut plan = Plan::new(&facts, self.piece, &mut self.changes_left);
        let bodies = rewrite_bodies(functions, code, &facts, &mut plan)?;
        let Some(added) = plan.added() else { return Ok(Cow::Borrowed(bytes)) };

        let mut draft = Draft::of(bytes);
        for section in sections(bytes, MODULE, at)? {
            let section = section?;
            match section.id {
                TYPE => draft.put(TYPE, &section.with(&added.types)?)?,
                FUNCTION => draft.put(FUNCTION, &section.with(&added.functions)?)?,
                CODE => draft.put(CODE, &content(bodies.count, &bodies.bytes, &added.bodies)?)?,
                CUSTOM => match names::with(&section, &added.names)? {
                    Some(named) => draft.put(CUSTOM, &named)?,
                    None => draft.keep(section.whole),
                },
                _ => draft.keep(section.whole),
            }
        }
        Ok(draft.done())
    }
}

/// The sections that are read. Each may be there once.
#[derive(Default)]
struct Found<'a> {
    types: Option<Section<'a>>,
    imports: Option<Section<'a>>,
    functions: Option<Section<'a>>,
    tables: Option<Section<'a>>,
    memories: Option<Section<'a>>,
    elements: Option<Section<'a>>,
    code: Option<Section<'a>>,
    data: Option<Section<'a>>,
}

impl<'a> Found<'a> {
    fn within(bytes: &'a [u8], at: usize) -> Result<Self, Unsplittable> {
        let mut found = Self::default();
        for section in sections(bytes, MODULE, at)? {
            let section = section?;
            let place = match section.id {
                TYPE => &mut found.types,
                IMPORT => &mut found.imports,
                FUNCTION => &mut found.functions,
                TABLE => &mut found.tables,
                MEMORY => &mut found.memories,
                ELEMENT => &mut found.elements,
                CODE => &mut found.code,
                DATA => &mut found.data,
                _ => continue,
            };
            let at = section.at;
            if place.replace(section).is_some() {
                return Err(Unsplittable::Malformed { what: "a section of this kind is there already".to_owned(), at });
            }
        }
        Ok(found)
    }

    fn facts(&self) -> Result<Facts, Unsplittable> {
        type Read = fn(&mut Facts, &Section<'_>) -> Result<(), Unsplittable>;
        // What is imported comes first in every index space.
        let order: [(_, Read); 7] = [
            (&self.types, Facts::read_types),
            (&self.imports, Facts::read_imports),
            (&self.functions, Facts::read_functions),
            (&self.tables, Facts::read_tables),
            (&self.memories, Facts::read_memories),
            (&self.elements, Facts::read_elements),
            (&self.data, Facts::read_data),
        ];
        let mut facts = Facts::default();
        for (section, read) in order {
            section.as_ref().map_or(Ok(()), |section| read(&mut facts, section))?;
        }
        Ok(facts)
    }
}

fn rewrite_bodies(
    functions: &Section<'_>,
    code: &Section<'_>,
    facts: &Facts,
    plan: &mut Plan<'_>,
) -> Result<Items, Unsplittable> {
    let types = FunctionSectionReader::new(functions.reader())?;
    let bodies = CodeSectionReader::new(code.reader())?;
    if types.count() != bodies.count() {
        let what = "as many bodies are expected as there are functions".to_owned();
        return Err(Unsplittable::Malformed { what, at: code.at });
    }
    let mut items = Items::default();
    let mut types = types.into_iter();
    // The bodies come second, so that what is behind the last one is looked at.
    for body in bodies {
        let body = body?;
        let at = body.range().start;
        let Some(ty) = types.next().transpose()? else { break };
        let Some(params) = facts.params(ty) else {
            return Err(Unsplittable::Malformed { what: format!("type {ty} is no function's"), at });
        };
        let rewritten = body::rewrite(&body, params, plan)?;
        put_sized(&mut items.bytes, rewritten.as_deref().unwrap_or(body.as_bytes()))?;
        items.count += 1;
    }
    Ok(items)
}
