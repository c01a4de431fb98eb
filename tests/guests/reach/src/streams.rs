//! Pollables and streams, used as nobody should.

use crate::wasi::cli::environment::get_environment;
use crate::wasi::cli::stdout::get_stdout;
use crate::wasi::clocks::monotonic_clock::subscribe_duration;
use crate::wasi::io::poll::poll;
use crate::{Came, name};

pub fn command(words: &[&str]) -> Option<Came> {
    Some(match words {
        ["env"] => {
            Ok(get_environment().iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" "))
        }
        ["trap"] => panic!("as asked"),
        ["spin"] => loop {
            std::hint::spin_loop();
        },
        ["wait"] => {
            subscribe_duration(u64::MAX).block();
            Ok("ok".to_owned())
        }
        ["pollables"] => {
            let mut all = Vec::new();
            loop {
                all.push(subscribe_duration(u64::MAX));
            }
        }
        // One pollable, asked for again and again in one call.
        ["pollmany", times] => {
            let one = subscribe_duration(0);
            let many: Vec<_> = (0..times.parse().unwrap_or(0)).map(|_| &one).collect();
            Ok(poll(&many).len().to_string())
        }
        ["zeroes", bytes] => get_stdout().write_zeroes(bytes.parse().unwrap_or(0)).map(crate::ok).map_err(name),
        ["print"] => {
            let stdout = get_stdout();
            loop {
                if let Err(error) = stdout.blocking_write_and_flush(&[b'x'; 4096]) {
                    break Err(name(error));
                }
            }
        }
        _ => return None,
    })
}
