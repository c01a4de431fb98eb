//! How a task is born.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::types::KnownType;
use super::{Error, Host, TaskView};
use crate::id::{QueueName, TaskId, TraceParent, TypeName};
use crate::store::life::Submission;
use crate::task::{DedupScope, Rejection, Spec, Task, TermsDraft};
use crate::time::Timestamp;

const TEXT_MAX: usize = 200;
const LABELS_MAX: usize = 16;
const LABEL_NAME_MAX: usize = 64;
/// `run_after` may be this far ahead.
const AHEAD_MAX: Duration = Duration::from_hours(366 * 24);

/// A task to be submitted.
#[derive(Clone, Debug)]
pub struct NewTask {
    pub task_type: TypeName,
    /// JSON.
    pub input: String,
    /// The task that has this key already, of the same type, is given back instead of a new one. Up to 200 bytes.
    pub dedup_key: Option<String>,
    pub dedup_scope: DedupScope,
    /// −100 to 100, higher first.
    pub priority: i8,
    pub queue: QueueName,
    pub run_after: Option<Timestamp>,
    /// Where these speak, they go before the type's.
    pub terms: TermsDraft,
    pub creator: Option<String>,
    pub request_id: Option<String>,
    pub trace: Option<TraceParent>,
    /// Up to 16, each name up to 64 bytes and each value up to 200.
    pub labels: BTreeMap<String, String>,
}

impl NewTask {
    /// A task of this type, and nothing else said.
    #[must_use]
    pub fn new(task_type: TypeName, input: impl Into<String>) -> Self {
        Self {
            task_type,
            input: input.into(),
            dedup_key: None,
            dedup_scope: DedupScope::default(),
            priority: 0,
            queue: QueueName::default(),
            run_after: None,
            terms: TermsDraft::default(),
            creator: None,
            request_id: None,
            trace: None,
            labels: BTreeMap::new(),
        }
    }
}

/// A submission's answer.
#[derive(Clone, Debug)]
pub struct Submitted {
    /// May be REJECTED: then its reason says why it was not taken.
    pub task: Task,
    /// The task was there already, and this submission changed nothing.
    pub existing: bool,
}

impl Host {
    /// Registers a task. It is on disk when this returns, and starts at once if a slot is free.
    ///
    /// # Errors
    /// It is no task at all: a field is wrong, or its terms cannot be worked out. Nothing was registered.
    /// What is wrong with a task otherwise makes it REJECTED, on record.
    pub async fn submit(&self, new: NewTask) -> Result<Submitted, Error> {
        let submission = self.prepare(new).await?;
        let mut born = self.inner.runner.admit(vec![submission]).await?;
        born.pop().map(|(task, existing)| Submitted { task, existing }).ok_or(Error::Closed)
    }

    /// [`Host::submit`] and [`Host::wait`] in one, which saves the look at the store.
    ///
    /// # Errors
    /// As those two.
    pub async fn submit_and_wait(&self, new: NewTask, patience: Duration) -> Result<TaskView, Error> {
        let submission = self.prepare(new).await?;
        let mut waiting = self.inner.runner.wait_for(submission.spec.id);
        let mut born = self.inner.runner.admit(vec![submission]).await?;
        let (task, existing) = born.pop().ok_or(Error::Closed)?;
        if existing {
            return self.wait(task.spec.id, patience).await;
        }
        if task.state.kind().is_terminal() {
            return Ok(self.view(task, None));
        }
        match tokio::time::timeout(patience, waiting.ended()).await {
            Ok(Some(task)) => Ok(self.view(task, None)),
            Ok(None) | Err(_) => self.show(task.spec.id).await,
        }
    }

    /// Registers many tasks in one commit: all of them, or none if one is no task at all.
    ///
    /// # Errors
    /// As [`Host::submit`], with the place of the first that is wrong.
    pub async fn submit_many(&self, new: Vec<NewTask>) -> Result<Vec<Submitted>, (usize, Error)> {
        let mut submissions = Vec::with_capacity(new.len());
        for (place, task) in new.into_iter().enumerate() {
            submissions.push(self.prepare(task).await.map_err(|error| (place, error))?);
        }
        let born = self.inner.runner.admit(submissions).await.map_err(|error| (0, error.into()))?;
        Ok(born.into_iter().map(|(task, existing)| Submitted { task, existing }).collect())
    }

    async fn prepare(&self, new: NewTask) -> Result<Submission, Error> {
        check_fields(&new)?;
        serde_json::from_str::<serde::de::IgnoredAny>(&new.input).map_err(|error| not_json(&error))?;
        let now = self.inner.clock.now();
        let known = self.known_type(&new.task_type).await?;
        let refusal = self.refusal(&new, known.as_deref())?;
        let delay = new.run_after.map_or(Duration::ZERO, |at| at.since(now));
        if delay > AHEAD_MAX {
            return Err(Error::Invalid { field: "run_after", problem: "is more than a year ahead".into() });
        }
        let draft = match &known {
            Some(known) => new.terms.over(&known.row.terms),
            // It is going to be rejected: the budget is there only to make the record whole.
            None => new.terms.over(&TermsDraft { run_timeout: Some(Duration::from_secs(1)), ..TermsDraft::default() }),
        };
        let terms = draft.resolve(delay)?;
        let oversized = matches!(refusal, Some((Rejection::InputTooLarge, _)));
        let spec = Spec {
            id: TaskId::new(),
            task_type: new.task_type,
            component: known.map(|known| (known.row.version, known.row.component)),
            queue: new.queue,
            priority: new.priority,
            dedup_key: new.dedup_key.map(Into::into),
            dedup_scope: new.dedup_scope,
            creator: new.creator.map(Into::into),
            request_id: new.request_id.map(Into::into),
            trace: new.trace.unwrap_or_else(TraceParent::generate),
            labels: new.labels.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
            created_at: now,
            run_after: new.run_after,
            terms,
        };
        let input = (!oversized).then(|| new.input.into());
        Ok(Submission { spec: Arc::new(spec), input, refusal, claim: None })
    }

    /// Why the task would not be taken, if so.
    fn refusal(&self, new: &NewTask, known: Option<&KnownType>) -> Result<Option<(Rejection, String)>, Error> {
        let limit = self.inner.config.input_bytes_max;
        if new.input.len() > limit {
            let detail = format!("the input has {} bytes, and at most {limit} are taken", new.input.len());
            return Ok(Some((Rejection::InputTooLarge, detail)));
        }
        let Some(known) = known else {
            return Ok(Some((Rejection::UnknownType, format!("there is no task type `{}`", new.task_type))));
        };
        let Some(schema) = &known.schema else { return Ok(None) };
        let value = serde_json::from_str(&new.input).map_err(|error| not_json(&error))?;
        Ok(schema.validate(&value).err().map(|error| {
            let place = error.instance_path().to_string();
            let place = if place.is_empty() { "the input".to_owned() } else { format!("`{place}` of the input") };
            (Rejection::InputInvalid, format!("{place} does not fit the schema: {error}"))
        }))
    }
}

fn not_json(error: &serde_json::Error) -> Error {
    Error::Invalid { field: "input", problem: format!("is not JSON: {error}") }
}

fn check_fields(new: &NewTask) -> Result<(), Error> {
    let invalid = |field, problem: String| Err(Error::Invalid { field, problem });
    let texts = [
        ("dedup_key", new.dedup_key.as_deref()),
        ("creator", new.creator.as_deref()),
        ("request_id", new.request_id.as_deref()),
    ];
    for (field, text) in texts {
        if let Some(text) = text
            && (text.is_empty() || text.len() > TEXT_MAX || text.chars().any(char::is_control))
        {
            return invalid(field, format!("must have 1 to {TEXT_MAX} bytes and no control characters"));
        }
    }
    if !(-100..=100).contains(&new.priority) {
        return invalid("priority", format!("is {}, but must be from -100 to 100", new.priority));
    }
    if new.labels.len() > LABELS_MAX {
        return invalid("labels", format!("are {}, and at most {LABELS_MAX} are taken", new.labels.len()));
    }
    for (name, value) in &new.labels {
        let odd = name.chars().chain(value.chars()).any(char::is_control);
        if odd || name.is_empty() || name.len() > LABEL_NAME_MAX || value.len() > TEXT_MAX {
            let most = format!("a name of 1 to {LABEL_NAME_MAX} bytes and a value of up to {TEXT_MAX}");
            return invalid("labels", format!("need {most}, without control characters"));
        }
    }
    Ok(())
}
