//! `atropos push`: upload a component, and register it as a task type.

use std::path::PathBuf;

use clap::Args;

use super::Shell;
use super::exit::Exit;
use super::files;
use super::grants::GrantsArgs;
use super::human::bytes;
use super::terms::TermsArgs;
use super::values::Json;
use crate::api::wire::{PutType, TermsDraft};
use crate::id::TypeName;

/// Upload a component and register it as a task type
///
/// The same bytes are uploaded once. Registering a type again makes its next version; tasks keep the version that they were born with.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  atropos push hello hello.wasm --run-timeout 10s
  atropos push export-report export.wasm --run-timeout 5m --grace 10s --max-retries 5
  atropos push import import.wasm --run-timeout 1m --input-schema @import.schema.json
  atropos push fetch fetch.wasm --run-timeout 1m --allow-http api.example.com --scratch 64MiB --env LANG=en")]
pub struct Push {
    /// The name of the task type
    #[arg(value_name = "TYPE")]
    name: TypeName,
    /// The component
    file: PathBuf,
    /// A JSON Schema that every input has to fit: JSON, @FILE, or - for stdin
    #[arg(long, value_name = "JSON")]
    input_schema: Option<Json>,
    #[command(flatten)]
    terms: TermsArgs,
    #[command(flatten)]
    grants: GrantsArgs,
}

impl Push {
    pub async fn run(self, shell: &Shell) -> anyhow::Result<Exit> {
        let schema = self.input_schema.map(|schema| schema.read("the input schema")).transpose()?;
        let terms = self.terms.draft()?;
        let grants = self.grants.grants()?;
        let component = files::component(&self.file)?;
        let client = shell.client()?;
        let size = component.len();
        let pushed = client.push_component(component, Some(&shell.by)).await?;
        let put = PutType {
            component: pushed.component.digest,
            terms: TermsDraft::from(&terms),
            grants: (&*grants).into(),
            input_schema: schema.as_deref().map(serde_json::from_str).transpose()?,
            by: Some(shell.by.clone()),
        };
        let answer = client.put_type(&self.name, &put).await?;
        if shell.print.json {
            shell.print.document(&answer)?;
            return Ok(Exit::Ok);
        }
        let registered = &answer.task_type;
        let what = if answer.existing { "was registered so already" } else { "registered" };
        shell.print.line(format!(
            "{what}: {} version {}, component {} ({})",
            registered.name,
            registered.version,
            short(&registered.component.to_string()),
            bytes(size as u64)
        ))?;
        let asks = pushed.component.imports.iter().any(|import| import.starts_with("wasi:http/outgoing-handler"));
        if asks && grants.http.is_empty() {
            shell
                .print
                .say("note: it can send HTTP requests, and all will be refused: no `--allow-http HOST` is given");
        }
        if registered.terms.run_timeout.is_none() {
            shell.print.say("note: without `--run-timeout`, every submission of this type has to give one");
        }
        Ok(Exit::Ok)
    }
}

/// Enough of a digest to tell it from others.
pub(super) fn short(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
}
