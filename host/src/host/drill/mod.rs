//! The cancel drill: runs a component undisturbed, then again and again, and stops it each time at another moment: at its
//! host calls and at others.
//!
//! It goes through an executor like every task, in a process of its own making, but without store and runner: it keeps
//! no record. Must not know the command line.

mod grade;
mod ground;
mod plan;

use std::sync::Arc;
use std::time::{Duration, Instant};

pub use grade::{Grade, Verdict, grade};
use ground::{Ground, Run};

use super::{Error, Host};
use tokio::task::JoinSet;

use crate::executor::protocol::Ended;
use crate::id::Digest;
use crate::task::{CostReceipt, Death, Ending, Limits, Scene};

/// Guests that wait most of the time are drilled side by side: they do not disturb each other.
const SIDE_BY_SIDE: usize = 8;
/// A guest that uses less than the tenth part of its time.
const IDLE_SHARE: u64 = 10;

/// What a drill is to do.
#[derive(Clone, Debug)]
pub struct DrillOrders {
    /// JSON.
    pub input: Arc<str>,
    /// How long the undisturbed run may take before it is stopped, too.
    pub run_timeout: Duration,
    pub grace: Duration,
    pub limits: Limits,
    /// How long the stops may take together. At least one is made.
    pub time: Duration,
    pub seed: u64,
}

/// When the guest is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Before its first instruction.
    Entry,
    /// As it makes the host call of this number, before that does anything.
    Call(u64),
    /// So long after its entry.
    After(Duration),
}

/// How a guest that was told to stop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum How {
    /// It returned `stopped`.
    Stopped,
    /// It ended as it did undisturbed: its work was done.
    Finished,
    /// It returned another failure.
    Failed,
    /// It died of a defect.
    Died,
    /// It went on until it was killed.
    Forced,
    /// The host failed under it.
    HostFailed,
    /// It was not gone long after it had been killed.
    Left,
}

/// One stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    pub at: Moment,
    pub how: How,
    /// From told to gone.
    pub took: Duration,
    /// From killed to gone.
    pub force: Option<Duration>,
    /// From told to seen, if it looked.
    pub seen: Option<Duration>,
    /// Where it was when it was killed or died: the host call, or the innermost frame.
    pub place: Option<String>,
    /// What it said, or died of.
    pub detail: Option<String>,
}

/// The run that nobody disturbed.
#[derive(Clone, Debug, PartialEq)]
pub struct Undisturbed {
    /// Absent if it was still running when its time was over.
    pub ending: Option<Ending>,
    pub cost: CostReceipt,
}

/// What a drill found.
#[derive(Clone, Debug, PartialEq)]
pub struct Drilled {
    pub undisturbed: Undisturbed,
    pub stops: Vec<Stop>,
    /// Guests that were over before they were told.
    pub too_late: usize,
    /// Moments for which there was no time.
    pub left_out: usize,
    pub verdict: Verdict,
}

impl Host {
    /// Runs a component that was pushed, without a task: undisturbed, and then stopped at many moments. It can reach
    /// nothing but what every guest can.
    ///
    /// # Errors
    /// The sandbox cannot be set up.
    pub async fn drill(&self, component: Digest, orders: DrillOrders) -> Result<Drilled, Error> {
        let ground = Arc::new(Ground::open(
            self.inner.compiler.artefacts().clone(),
            Arc::clone(&self.inner.compiler),
            component,
            orders,
        )?);
        let drilled = ground.drill().await;
        ground.close().await;
        Ok(drilled)
    }
}

impl Ground {
    async fn drill(self: &Arc<Self>) -> Drilled {
        let orders = &self.orders;
        let undisturbed = self.run(Moment::After(orders.run_timeout)).await;
        let (ending, mut stops) = match &undisturbed {
            Run::Left => (None, vec![Stop::left(Moment::After(orders.run_timeout))]),
            Run::Ended(ended) if ended.told_at.is_some() => {
                (None, vec![Stop::of(Moment::After(orders.run_timeout), ended, None)])
            }
            Run::Ended(ended) => (Some(ended.ending.clone()), Vec::new()),
        };
        let cost = if let Run::Ended(ended) = undisturbed { ended.cost } else { CostReceipt::default() };
        let wall = Duration::from_micros(cost.wall_micros).min(orders.run_timeout);
        let moments = plan::moments(cost.host_calls, wall, orders.seed);
        let undisturbed = Undisturbed { ending, cost };
        let planned = moments.len();
        let (mut more, too_late) = self.stop_at(moments, &undisturbed).await;
        let left_out = planned - more.len() - too_late;
        stops.append(&mut more);
        let verdict = grade(undisturbed.ending.as_ref(), &stops, orders.grace);
        Drilled { undisturbed, stops, too_late, left_out, verdict }
    }

    /// Stops the guest at each moment, for as long as there is time; and how often it was over before.
    async fn stop_at(self: &Arc<Self>, moments: Vec<Moment>, undisturbed: &Undisturbed) -> (Vec<Stop>, usize) {
        let begun = Instant::now();
        let cost = &undisturbed.cost;
        let idle = cost.cpu_micros.saturating_mul(IDLE_SHARE) < cost.wall_micros;
        let side_by_side = if idle { SIDE_BY_SIDE } else { 1 };
        let mut moments = moments.into_iter();
        let mut running = JoinSet::new();
        let (mut stops, mut too_late) = (Vec::<Stop>::new(), 0);
        loop {
            let first = stops.is_empty() && running.is_empty();
            let stuck = stops.iter().any(|stop| stop.how == How::Left);
            let more = running.len() < side_by_side && !stuck && (first || begun.elapsed() < self.orders.time);
            if more && let Some(moment) = moments.next() {
                let ground = Arc::clone(self);
                running.spawn(async move { (moment, ground.run(moment).await) });
                continue;
            }
            match running.join_next().await {
                None => return (stops, too_late),
                Some(Ok((_, Run::Ended(ended)))) if ended.told_at.is_none() => too_late += 1,
                Some(Ok((moment, Run::Ended(ended)))) => {
                    stops.push(Stop::of(moment, &ended, undisturbed.ending.as_ref()));
                }
                Some(Ok((moment, Run::Left))) => stops.push(Stop::left(moment)),
                Some(Err(panic)) => tracing::error!(%panic, "a stop of the drill failed"),
            }
        }
    }
}

impl Stop {
    /// What became of a guest that was told. `natural` is how it ends when it is not.
    fn of(at: Moment, ended: &Ended, natural: Option<&Ending>) -> Self {
        let told_at = ended.told_at.unwrap_or(ended.gone_at);
        let (how, detail) = how(&ended.ending, natural);
        let place = if matches!(how, How::Forced | How::Died) { ended.scene.as_ref().and_then(place) } else { None };
        Self {
            at,
            how,
            took: ended.gone_at.since(told_at),
            force: ended.killed_at.map(|killed_at| ended.gone_at.since(killed_at)),
            seen: ended.last.stop_seen_at.map(|seen_at| seen_at.since(told_at)),
            place,
            detail,
        }
    }

    fn left(at: Moment) -> Self {
        Self { at, how: How::Left, took: Duration::ZERO, force: None, seen: None, place: None, detail: None }
    }
}

fn how(ending: &Ending, natural: Option<&Ending>) -> (How, Option<String>) {
    if natural == Some(ending) {
        return (How::Finished, None);
    }
    match ending {
        Ending::Stopped => (How::Stopped, None),
        Ending::Succeeded => (How::Finished, None),
        Ending::Failed { message, .. } => (How::Failed, Some(message.clone())),
        Ending::Died { cause: Death::HostFault, message } => (How::HostFailed, Some(message.clone())),
        Ending::Died { message, .. } => (How::Died, Some(message.clone())),
        Ending::Killed => (How::Forced, None),
        Ending::FuelSpent | Ending::Lost { .. } => (How::HostFailed, None),
    }
}

/// The host call it sat in, or else its innermost frame.
fn place(scene: &Scene) -> Option<String> {
    let frame = scene.backtrace.first();
    match (&scene.host_call, frame) {
        (Some(call), _) => Some(call.clone()),
        (None, Some(frame)) => Some(frame.clone()),
        (None, None) => None,
    }
}
