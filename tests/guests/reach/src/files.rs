//! Files of the first folder that is preopened.

use crate::wasi::filesystem::preopens::get_directories;
use crate::wasi::filesystem::types::filesystem_error_code;
use crate::wasi::filesystem::types::{Descriptor, DescriptorFlags, ErrorCode, OpenFlags, PathFlags};
use crate::wasi::io::streams::StreamError;
use crate::{Came, name, ok};

#[derive(Default)]
pub struct Files {
    root: Option<Descriptor>,
    held: Vec<Descriptor>,
}

// A link is asked for as it is.

impl Files {
    pub fn command(&mut self, words: &[&str]) -> Option<Came> {
        let root = match words {
            ["preopens"] => return Some(Ok(get_directories().iter().map(|(_, name)| name.clone()).collect())),
            ["drop"] => {
                self.held.clear();
                return Some(Ok("ok".to_owned()));
            }
            [
                "write" | "append" | "pwrite" | "size" | "read" | "mkdir" | "rmdir" | "unlink" | "rename" | "symlink"
                | "link" | "until" | "stat" | "ls" | "hold" | "open" | "flood" | "openflood" | "forever" | "deep"
                | "sync" | "hole",
                ..,
            ] => {
                if self.root.is_none() {
                    self.root = get_directories().into_iter().next().map(|(folder, _)| folder);
                }
                match &self.root {
                    Some(root) => root,
                    None => return Some(Err("no folder".to_owned())),
                }
            }
            _ => return None,
        };
        Some(match words {
            ["hold", path] => match create(root, path, OpenFlags::CREATE) {
                Ok(file) => {
                    self.held.push(file);
                    Ok("ok".to_owned())
                }
                Err(error) => Err(name(error)),
            },
            ["openflood", path] => loop {
                match open(root, path, OpenFlags::empty(), DescriptorFlags::READ) {
                    Ok(file) => self.held.push(file),
                    Err(error) => break Err(name(error)),
                }
            },
            _ => of(root, words),
        })
    }
}

fn of(root: &Descriptor, words: &[&str]) -> Came {
    let number = |text: &str| text.parse::<u64>().map_err(|_| "no number".to_owned());
    match words {
        ["write", path, bytes] => {
            let file = create(root, path, OpenFlags::CREATE | OpenFlags::TRUNCATE).map_err(name)?;
            stream(&file, number(bytes)?)
        }
        ["append", path, text] => {
            let file = create(root, path, OpenFlags::CREATE).map_err(name)?;
            let stream = file.append_via_stream().map_err(name)?;
            stream.blocking_write_and_flush(text.as_bytes()).map(ok).map_err(stream_error)
        }
        ["pwrite", path, offset, text] => {
            let file = create(root, path, OpenFlags::CREATE).map_err(name)?;
            file.write(text.as_bytes(), number(offset)?).map(|written| written.to_string()).map_err(name)
        }
        ["size", path, bytes] => {
            let file = create(root, path, OpenFlags::CREATE).map_err(name)?;
            file.set_size(number(bytes)?).map(ok).map_err(name)
        }
        ["sync", path] => {
            let file = create(root, path, OpenFlags::CREATE).map_err(name)?;
            file.sync().map(ok).map_err(name)
        }
        ["read", path] => {
            let file = open(root, path, OpenFlags::empty(), DescriptorFlags::READ).map_err(name)?;
            let stream = file.read_via_stream(0).map_err(name)?;
            let mut all = Vec::new();
            loop {
                match stream.blocking_read(1 << 16) {
                    Ok(bytes) => all.extend(bytes),
                    Err(StreamError::Closed) => break Ok(String::from_utf8_lossy(&all).into_owned()),
                    Err(error) => break Err(stream_error(error)),
                }
            }
        }
        ["open", path] => {
            open(root, path, OpenFlags::empty(), DescriptorFlags::READ).map(|_| "ok".to_owned()).map_err(name)
        }
        ["until", path] => {
            while root.stat_at(PathFlags::empty(), path).is_err() {
                crate::atropos::task::lifecycle::sleep(2);
            }
            Ok("ok".to_owned())
        }
        ["mkdir", path] => root.create_directory_at(path).map(ok).map_err(name),
        ["rmdir", path] => root.remove_directory_at(path).map(ok).map_err(name),
        ["unlink", path] => root.unlink_file_at(path).map(ok).map_err(name),
        ["rename", from, to] => root.rename_at(from, root, to).map(ok).map_err(name),
        ["symlink", to, path] => root.symlink_at(to, path).map(ok).map_err(name),
        ["link", from, to] => root.link_at(PathFlags::empty(), from, root, to).map(ok).map_err(name),
        ["stat", path] => root.stat_at(PathFlags::SYMLINK_FOLLOW, path).map(|stat| stat.size.to_string()).map_err(name),
        ["ls", path] => {
            let folder = open(root, path, OpenFlags::DIRECTORY, DescriptorFlags::READ).map_err(name)?;
            let entries = folder.read_directory().map_err(name)?;
            let mut names = Vec::new();
            while let Some(entry) = entries.read_directory_entry().map_err(name)? {
                names.push(entry.name);
            }
            names.sort();
            Ok(names.join(" "))
        }
        _ => much(root, words),
    }
}

/// What takes all there is.
fn much(root: &Descriptor, words: &[&str]) -> Came {
    match words {
        ["flood"] => {
            for made in 0.. {
                if let Err(error) = create(root, &format!("flood-{made}"), OpenFlags::CREATE) {
                    return Ok(format!("{made} {}", name(error)));
                }
            }
            Err("no end".to_owned())
        }
        ["deep", levels] => {
            let mut folder = None;
            for level in 0..levels.parse().unwrap_or(0) {
                let here = folder.as_ref().unwrap_or(root);
                here.create_directory_at("d").map_err(|error| format!("{level} {}", name(error)))?;
                create(here, "f", OpenFlags::CREATE).map_err(name)?;
                folder = Some(open(here, "d", OpenFlags::DIRECTORY, DescriptorFlags::READ).map_err(name)?);
            }
            Ok("ok".to_owned())
        }
        ["forever", path] => {
            let file = create(root, path, OpenFlags::CREATE).map_err(name)?;
            let stream = file.append_via_stream().map_err(name)?;
            loop {
                stream.blocking_write_and_flush(b"x").map_err(stream_error)?;
            }
        }
        _ => Err("no command".to_owned()),
    }
}

fn open(root: &Descriptor, path: &str, open: OpenFlags, flags: DescriptorFlags) -> Result<Descriptor, ErrorCode> {
    root.open_at(PathFlags::SYMLINK_FOLLOW, path, open, flags)
}

fn create(root: &Descriptor, path: &str, flags: OpenFlags) -> Result<Descriptor, ErrorCode> {
    open(root, path, flags, DescriptorFlags::READ | DescriptorFlags::WRITE)
}

fn stream(file: &Descriptor, mut bytes: u64) -> Came {
    let stream = file.write_via_stream(0).map_err(name)?;
    while bytes > 0 {
        let part = bytes.min(4096);
        stream.blocking_write_and_flush(&vec![b'x'; part as usize]).map_err(stream_error)?;
        bytes -= part;
    }
    Ok("ok".to_owned())
}

fn stream_error(error: StreamError) -> String {
    match error {
        StreamError::Closed => "closed".to_owned(),
        StreamError::LastOperationFailed(error) => match filesystem_error_code(&error) {
            Some(code) => name(code),
            None => error.to_debug_string(),
        },
    }
}
