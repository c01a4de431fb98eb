//! Components and task types.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::grants::Grants;
use super::terms::TermsDraft;
use crate::id::{Digest, TypeName};
use crate::store::{ComponentRow, TypeRow};
use crate::time::Timestamp;

/// A component that was uploaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Component {
    pub digest: Digest,
    /// Its size.
    pub bytes: u64,
    pub uploaded_at: Timestamp,
    pub uploaded_by: String,
    pub imports: Vec<String>,
    pub exports: Vec<String>,
}

/// The component that an upload came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PutComponent {
    #[serde(flatten)]
    pub component: Component,
    /// These bytes were there already, and the upload changed nothing.
    pub existing: bool,
}

/// The next version of a task type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PutType {
    /// Uploaded before.
    pub component: Digest,
    /// What its tasks may use, where it differs from the defaults.
    #[serde(default)]
    pub terms: TermsDraft,
    /// What its guests may reach.
    #[serde(default, skip_serializing_if = "Grants::is_empty")]
    pub grants: Grants,
    /// A JSON Schema that the input of its tasks has to fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub input_schema: Option<Value>,
    /// Who registers it, for the record: up to 200 bytes. `api` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// One version of a task type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TaskType {
    pub name: TypeName,
    /// From 1.
    pub version: u32,
    pub component: Digest,
    /// What its tasks may use, where it differs from the defaults.
    pub terms: TermsDraft,
    /// What its guests may reach. Absent: nothing.
    #[serde(default, skip_serializing_if = "Grants::is_empty")]
    pub grants: Grants,
    /// A JSON Schema that the input of its tasks has to fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub input_schema: Option<Value>,
    pub created_at: Timestamp,
    pub created_by: String,
}

/// The version that a registration came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PutTypeAnswer {
    #[serde(flatten)]
    pub task_type: TaskType,
    /// The latest version says the same, and the registration changed nothing.
    pub existing: bool,
}

impl From<ComponentRow> for Component {
    fn from(row: ComponentRow) -> Self {
        Self {
            digest: row.digest,
            bytes: row.bytes,
            uploaded_at: row.uploaded_at,
            uploaded_by: row.uploaded_by.to_string(),
            imports: row.imports,
            exports: row.exports,
        }
    }
}

impl TaskType {
    /// As it is kept.
    pub(in crate::api) fn of(row: &TypeRow) -> Result<Self, serde_json::Error> {
        Ok(Self {
            name: row.name.clone(),
            version: row.version,
            component: row.component,
            terms: (&row.terms).into(),
            grants: (&*row.terms.grants).into(),
            input_schema: row.input_schema.as_deref().map(serde_json::from_str).transpose()?,
            created_at: row.created_at,
            created_by: row.created_by.to_string(),
        })
    }
}
