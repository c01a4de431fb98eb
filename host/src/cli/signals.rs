//! Ctrl-C and the request to terminate, one after the other.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Both signals. From its creation on none is missed, and none ends the process by itself.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// # Errors
    /// The system does not let itself be listened to.
    pub fn listen() -> std::io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// The next of them, by name.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            Some(()) = self.interrupt.recv() => "SIGINT",
            Some(()) = self.terminate.recv() => "SIGTERM",
            else => std::future::pending().await,
        }
    }
}
