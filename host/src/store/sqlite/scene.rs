//! The scene of a death as JSON, of which SQL never reads anything. Older rows say less.

use serde::{Deserialize, Serialize};

use crate::task::{CoreDump, Phase, Scene};
use crate::time::Timestamp;

#[derive(Serialize, Deserialize)]
pub(super) struct SceneBody {
    /// A code; one that is not known is as good as none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    phase: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at_micros: Option<i64>,
    backtrace: Vec<String>,
    host_call: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    core_dump_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    core_dump_missing: Option<String>,
}

impl From<&Scene> for SceneBody {
    fn from(scene: &Scene) -> Self {
        let (core_dump_bytes, core_dump_missing) = match &scene.core_dump {
            None => (None, None),
            Some(CoreDump::Kept { bytes }) => (Some(*bytes), None),
            Some(CoreDump::Missing { why }) => (None, Some(why.clone())),
        };
        Self {
            phase: scene.phase.map(|phase| phase.code().to_owned()),
            at_micros: scene.at.map(Timestamp::as_micros),
            backtrace: scene.backtrace.clone(),
            host_call: scene.host_call.clone(),
            core_dump_bytes,
            core_dump_missing,
        }
    }
}

impl From<SceneBody> for Scene {
    fn from(body: SceneBody) -> Self {
        let kept = body.core_dump_bytes.map(|bytes| CoreDump::Kept { bytes });
        Self {
            phase: body.phase.as_deref().and_then(Phase::parse),
            at: body.at_micros.map(Timestamp::from_micros),
            backtrace: body.backtrace,
            host_call: body.host_call,
            core_dump: kept.or(body.core_dump_missing.map(|why| CoreDump::Missing { why })),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scene_of_before_is_read() {
        let body: SceneBody = serde_json::from_str(r#"{"backtrace":["f"],"host_call":null}"#).unwrap();
        assert_eq!(Scene::from(body), Scene { backtrace: vec!["f".into()], ..Scene::default() });
    }
}
