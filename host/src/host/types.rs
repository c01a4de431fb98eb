//! Components and task types: what can be run, and on which terms.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use super::{Error, Host};
use crate::component::Place;
use crate::id::{Digest, TypeName};
use crate::store::{ComponentRow, TypeRow};
use crate::task::TermsDraft;

/// A version of a type to be registered.
#[derive(Clone, Debug)]
pub struct NewType {
    pub name: TypeName,
    /// Uploaded before.
    pub component: Digest,
    pub terms: TermsDraft,
    /// A JSON Schema for the input.
    pub input_schema: Option<String>,
    /// Who registers it, for the record.
    pub by: Arc<str>,
}

/// A registered version, ready for use.
pub(super) struct KnownType {
    pub(super) row: TypeRow,
    pub(super) schema: Option<jsonschema::Validator>,
}

/// The latest version of each type that was asked for. One node on one store: nobody else changes them.
#[derive(Default)]
pub(super) struct TypeCache {
    known: RwLock<HashMap<TypeName, Arc<KnownType>>>,
}

impl TypeCache {
    fn get(&self, name: &TypeName) -> Option<Arc<KnownType>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).get(name).map(Arc::clone)
    }

    /// A newer version stays.
    fn put(&self, known: Arc<KnownType>) {
        let mut all = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let newer = all.get(&known.row.name).is_some_and(|there| there.row.version > known.row.version);
        if !newer {
            all.insert(known.row.name.clone(), known);
        }
    }
}

impl Host {
    /// A place for one upload, to be taken before its bytes are read and held until [`Host::push`] returns, so that uploads
    /// that nobody can compile yet do not fill the memory.
    ///
    /// # Errors
    /// As many uploads wait as the node takes.
    pub fn upload_place(&self) -> Result<Place, Error> {
        Ok(self.inner.compiler.place()?)
    }

    /// Takes a component: checks and compiles it, and keeps its bytes. The same bytes are the same component.
    ///
    /// # Errors
    /// It does not fit: the error says why, and nothing is kept.
    pub async fn push(&self, bytes: Vec<u8>, by: Arc<str>) -> Result<ComponentRow, Error> {
        let bytes = Arc::new(bytes);
        let hashed = Arc::clone(&bytes);
        let hashed = tokio::task::spawn_blocking(move || Digest::of(&hashed));
        let digest = hashed.await.map_err(|_| Error::Closed)?;
        if let Some(row) = self.inner.store.read(move |view| view.component(digest)).await? {
            // Should its file be gone or spoilt, this heals it.
            self.keep(bytes).await?;
            return Ok(row);
        }
        let inspection = self.inner.compiler.check(Arc::clone(&bytes)).await?;
        let size = bytes.len();
        self.keep(bytes).await?;
        let row = ComponentRow {
            digest,
            bytes: size as u64,
            uploaded_at: self.inner.clock.now(),
            uploaded_by: by,
            imports: inspection.imports,
            exports: inspection.exports,
        };
        let kept = row.clone();
        self.inner.store.write(move |tx| tx.put_component(&kept)).await?;
        Ok(row)
    }

    async fn keep(&self, bytes: Arc<Vec<u8>>) -> Result<(), Error> {
        let folder = self.inner.folder.clone();
        let kept = tokio::task::spawn_blocking(move || folder.put(&bytes));
        kept.await.map_err(|_| Error::Closed)??;
        Ok(())
    }

    /// Registers the next version of a type; the same again gives the version that is there.
    ///
    /// # Errors
    /// The component is not there, the terms are out of range, or the schema is none.
    pub async fn put_type(&self, new: NewType) -> Result<TypeRow, Error> {
        new.terms.check()?;
        new.terms.grants.check()?;
        let schema = new.input_schema.as_deref().map(compile_schema).transpose()?;
        let now = self.inner.clock.now();
        let wanted = new.component;
        let row = self
            .inner
            .store
            .write(move |tx| {
                if tx.component(new.component)?.is_none() {
                    return Ok(None);
                }
                let latest = tx.task_type(&new.name, None)?;
                let schema_text: Option<Arc<str>> = new.input_schema.as_deref().map(Into::into);
                if let Some(there) = &latest
                    && there.component == new.component
                    && there.terms == new.terms
                    && there.input_schema == schema_text
                {
                    return Ok(latest);
                }
                let row = TypeRow {
                    name: new.name.clone(),
                    version: latest.map_or(0, |there| there.version) + 1,
                    component: new.component,
                    terms: new.terms.clone(),
                    input_schema: schema_text,
                    created_at: now,
                    created_by: new.by.clone(),
                };
                tx.put_type(&row)?;
                Ok(Some(row))
            })
            .await?;
        let Some(row) = row else {
            return Err(Error::NotFound { what: "component", name: wanted.to_string() });
        };
        self.inner.types.put(Arc::new(KnownType { row: row.clone(), schema }));
        Ok(row)
    }

    /// The latest version of a type, if there is one.
    pub(super) async fn known_type(&self, name: &TypeName) -> Result<Option<Arc<KnownType>>, Error> {
        if let Some(known) = self.inner.types.get(name) {
            return Ok(Some(known));
        }
        let wanted = name.clone();
        let Some(row) = self.inner.store.read(move |view| view.task_type(&wanted, None)).await? else {
            return Ok(None);
        };
        let schema = row.input_schema.as_deref().map(compile_schema).transpose()?;
        let known = Arc::new(KnownType { row, schema });
        self.inner.types.put(Arc::clone(&known));
        Ok(Some(known))
    }

    /// All versions of a type, latest first.
    ///
    /// # Errors
    /// There is no such type.
    pub async fn type_versions(&self, name: &TypeName) -> Result<Vec<TypeRow>, Error> {
        let wanted = name.clone();
        let versions = self.inner.store.read(move |view| view.type_versions(&wanted)).await?;
        if versions.is_empty() {
            return Err(Error::NotFound { what: "task type", name: name.to_string() });
        }
        Ok(versions)
    }

    /// The latest version of each type, by name.
    ///
    /// # Errors
    /// The store failed.
    pub async fn types(&self) -> Result<Vec<TypeRow>, Error> {
        Ok(self.inner.store.read(|view| view.task_types()).await?)
    }

    /// Every component, newest first.
    ///
    /// # Errors
    /// The store failed.
    pub async fn components(&self) -> Result<Vec<ComponentRow>, Error> {
        Ok(self.inner.store.read(|view| view.components()).await?)
    }

    /// One component.
    ///
    /// # Errors
    /// There is none of this digest.
    pub async fn component(&self, digest: Digest) -> Result<ComponentRow, Error> {
        let row = self.inner.store.read(move |view| view.component(digest)).await?;
        row.ok_or_else(|| Error::NotFound { what: "component", name: digest.to_string() })
    }
}

fn compile_schema(text: &str) -> Result<jsonschema::Validator, Error> {
    let invalid = |problem: String| Error::Invalid { field: "input_schema", problem };
    let schema: serde_json::Value =
        serde_json::from_str(text).map_err(|error| invalid(format!("is not JSON: {error}")))?;
    jsonschema::validator_for(&schema).map_err(|error| invalid(format!("is not a JSON Schema: {error}")))
}
