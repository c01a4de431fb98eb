//! `wasi:filesystem`: wasmtime's own, with a quota before whatever makes a file larger or more of them, and nothing but
//! regular files and folders within reach.
//!
//! Links of either kind are not offered, and none is followed.

use std::fs::File;
use std::io;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use wasmtime::component::{HasData, Resource};
use wasmtime_wasi::filesystem::{Descriptor, WasiFilesystemCtxView};
use wasmtime_wasi::p2::bindings::filesystem::types::{
    Advice, DescriptorFlags, DescriptorStat, DescriptorType, DirectoryEntry, DirectoryEntryStream, ErrorCode, Host,
    HostDescriptor, HostDirectoryEntryStream, MetadataHashValue, NewTimestamp, OpenFlags, PathFlags,
};
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, FsError, FsResult};

use super::Look;
use super::quota::{Held, Quota, grow};
use super::stream::{Reader, Writer};
use crate::sandbox::signs::Signs;

/// Listings of folders that a guest may have open: each is held in the host's memory.
const LISTINGS_MAX: u32 = 32;
/// Links are never followed.
fn nofollow() -> PathFlags {
    PathFlags::empty()
}

pub(in crate::sandbox) struct Files;

impl HasData for Files {
    type Data<'a> = FilesView<'a>;
}

pub(in crate::sandbox) struct FilesView<'a> {
    pub(in crate::sandbox) inner: WasiFilesystemCtxView<'a>,
    /// Absent: nothing is granted, and so nothing is open.
    pub(in crate::sandbox) quota: Option<&'a Arc<Quota>>,
    pub(in crate::sandbox) signs: &'a Arc<Signs>,
}

type Fd = Resource<Descriptor>;

impl FilesView<'_> {
    fn quota(&self) -> FsResult<Arc<Quota>> {
        self.signs.token.check().map_err(FsError::trap)?;
        self.quota.map(Arc::clone).ok_or_else(|| ErrorCode::NotPermitted.into())
    }

    fn file(&self, fd: &Fd) -> FsResult<Arc<File>> {
        match self.inner.table.get(fd)? {
            Descriptor::File(file) => Ok(Arc::clone(&file.file)),
            Descriptor::Dir(_) => Err(ErrorCode::IsDirectory.into()),
        }
    }

    fn folder(&self, fd: &Fd) -> FsResult<Arc<File>> {
        match self.inner.table.get(fd)? {
            Descriptor::Dir(folder) => Ok(Arc::clone(&folder.dir)),
            Descriptor::File(_) => Err(ErrorCode::NotDirectory.into()),
        }
    }

    /// What lies at the path, without opening it. Refuses what is neither file nor folder, and paths through links.
    fn look(&self, fd: &Fd, path: &str) -> FsResult<Option<Look>> {
        let folder = self.folder(fd)?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        // Somebody's rename elsewhere may come between, which the kernel says instead of guessing.
        let found = (0..8)
            .map(|_| rustix::fs::openat2(&*folder, path, flags, Mode::empty(), resolve))
            .find(|found| !matches!(found, Err(Errno::AGAIN)))
            .unwrap_or(Err(Errno::AGAIN));
        match found {
            Ok(found) => Ok(Some(Look::at(&found.into())?)),
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::XDEV) => Err(ErrorCode::NotPermitted.into()),
            Err(error) => Err(io::Error::from(error).into()),
        }
    }

    /// That nothing but what may be touched lies at the path.
    fn check(&self, fd: &Fd, path: &str) -> FsResult<()> {
        self.signs.token.check().map_err(FsError::trap)?;
        self.look(fd, path).map(drop)
    }
}

impl Host for FilesView<'_> {
    fn convert_error_code(&mut self, error: FsError) -> wasmtime::Result<ErrorCode> {
        self.inner.convert_error_code(error)
    }

    fn filesystem_error_code(&mut self, error: Resource<wasmtime::Error>) -> wasmtime::Result<Option<ErrorCode>> {
        self.inner.filesystem_error_code(error)
    }
}

impl HostDescriptor for FilesView<'_> {
    async fn open_at(
        &mut self,
        fd: Fd,
        _follow: PathFlags,
        path: String,
        open: OpenFlags,
        flags: DescriptorFlags,
    ) -> FsResult<Fd> {
        let quota = self.quota()?;
        let before = self.look(&fd, &path)?;
        let makes = before.is_none() && open.contains(OpenFlags::CREATE);
        if makes {
            quota.take_file()?;
        }
        let opened = HostDescriptor::open_at(&mut self.inner, fd, nofollow(), path, open, flags).await;
        if makes && opened.is_err() {
            quota.give_file();
        }
        let opened = opened?;
        if let (Some(before), true) = (before, open.contains(OpenFlags::TRUNCATE)) {
            quota.give_bytes(before.bytes);
        }
        if let Descriptor::File(file) = self.inner.table.get(&opened)? {
            quota.opened(Look::at(&file.file)?.inode);
        }
        Ok(opened)
    }

    fn drop(&mut self, fd: Fd) -> wasmtime::Result<()> {
        if let (Descriptor::File(file), Some(quota)) = (self.inner.table.get(&fd)?, self.quota)
            && let Ok(seen) = Look::at(&file.file)
        {
            quota.closed(seen);
        }
        HostDescriptor::drop(&mut self.inner, fd)
    }

    async fn create_directory_at(&mut self, fd: Fd, path: String) -> FsResult<()> {
        let quota = self.quota()?;
        self.look(&fd, &path)?;
        quota.take_file()?;
        let made = HostDescriptor::create_directory_at(&mut self.inner, fd, path).await;
        if made.is_err() {
            quota.give_file();
        }
        made
    }

    async fn remove_directory_at(&mut self, fd: Fd, path: String) -> FsResult<()> {
        let quota = self.quota()?;
        self.look(&fd, &path)?;
        HostDescriptor::remove_directory_at(&mut self.inner, fd, path).await?;
        quota.give_file();
        Ok(())
    }

    async fn unlink_file_at(&mut self, fd: Fd, path: String) -> FsResult<()> {
        let quota = self.quota()?;
        let seen = self.look(&fd, &path)?;
        HostDescriptor::unlink_file_at(&mut self.inner, fd, path).await?;
        if let Some(seen) = seen {
            quota.unlinked(seen);
        }
        Ok(())
    }

    async fn rename_at(&mut self, fd: Fd, old: String, new_fd: Fd, new: String) -> FsResult<()> {
        let quota = self.quota()?;
        let moved = self.look(&fd, &old)?;
        let replaced = self.look(&new_fd, &new)?;
        HostDescriptor::rename_at(&mut self.inner, fd, old, new_fd, new).await?;
        if let (Some(moved), Some(replaced)) = (moved, replaced)
            && moved.inode != replaced.inode
        {
            quota.unlinked(replaced);
        }
        Ok(())
    }

    async fn set_size(&mut self, fd: Fd, size: u64) -> FsResult<()> {
        let (quota, file) = (self.quota()?, self.file(&fd)?);
        let before = Look::at(&file)?.bytes;
        quota.take_bytes(size.saturating_sub(before))?;
        let set = HostDescriptor::set_size(&mut self.inner, fd, size).await;
        let after = Look::at(&file).map_or(before, |seen| seen.bytes);
        quota.give_bytes(before.max(size).saturating_sub(after));
        set
    }

    async fn write(&mut self, fd: Fd, bytes: Vec<u8>, offset: u64) -> FsResult<u64> {
        use std::os::unix::fs::FileExt as _;
        let (quota, file) = (self.quota()?, self.file(&fd)?);
        let end = offset.checked_add(bytes.len() as u64).ok_or(ErrorCode::FileTooLarge)?;
        let written = grow(&quota, &file, end, || file.write_at(&bytes, offset))?;
        self.signs.count_out(written);
        Ok(written as u64)
    }

    async fn read(&mut self, fd: Fd, length: u64, offset: u64) -> FsResult<(Vec<u8>, bool)> {
        self.quota()?;
        let read = HostDescriptor::read(&mut self.inner, fd, length, offset).await?;
        self.signs.count_in(read.0.len());
        Ok(read)
    }

    fn read_via_stream(&mut self, fd: Fd, offset: u64) -> FsResult<Resource<DynInputStream>> {
        let (quota, file) = (self.quota()?, self.file(&fd)?);
        let held = Held::new(&file, &quota)?;
        let stream: DynInputStream = Box::new(Reader { held, position: offset, signs: Arc::clone(self.signs) });
        Ok(self.inner.table.push(stream)?)
    }

    fn write_via_stream(&mut self, fd: Fd, offset: u64) -> FsResult<Resource<DynOutputStream>> {
        self.writer(&fd, Some(offset))
    }

    fn append_via_stream(&mut self, fd: Fd) -> FsResult<Resource<DynOutputStream>> {
        self.writer(&fd, None)
    }

    async fn read_directory(&mut self, fd: Fd) -> FsResult<Resource<DirectoryEntryStream>> {
        let quota = self.quota()?;
        quota.take_listing(LISTINGS_MAX)?;
        let listing = HostDescriptor::read_directory(&mut self.inner, fd).await;
        if listing.is_err() {
            quota.give_listing();
        }
        listing
    }

    /// Nothing outlives the attempt, so nothing need be safe on the disk, and no guest waits for that.
    async fn sync(&mut self, fd: Fd) -> FsResult<()> {
        self.inner.table.get(&fd)?;
        Ok(())
    }

    async fn sync_data(&mut self, fd: Fd) -> FsResult<()> {
        self.sync(fd).await
    }

    /// Advice is taken, and not followed: reading ahead would be work that nobody waits for.
    async fn advise(&mut self, fd: Fd, _offset: u64, _length: u64, _advice: Advice) -> FsResult<()> {
        self.file(&fd).map(drop)
    }

    async fn link_at(&mut self, _: Fd, _: PathFlags, _: String, _: Fd, _: String) -> FsResult<()> {
        Err(ErrorCode::Unsupported.into())
    }

    async fn symlink_at(&mut self, _: Fd, _: String, _: String) -> FsResult<()> {
        Err(ErrorCode::Unsupported.into())
    }

    async fn readlink_at(&mut self, fd: Fd, path: String) -> FsResult<String> {
        self.check(&fd, &path)?;
        Err(ErrorCode::Invalid.into())
    }

    async fn get_flags(&mut self, fd: Fd) -> FsResult<DescriptorFlags> {
        HostDescriptor::get_flags(&mut self.inner, fd).await
    }

    async fn get_type(&mut self, fd: Fd) -> FsResult<DescriptorType> {
        HostDescriptor::get_type(&mut self.inner, fd).await
    }

    async fn stat(&mut self, fd: Fd) -> FsResult<DescriptorStat> {
        HostDescriptor::stat(&mut self.inner, fd).await
    }

    async fn stat_at(&mut self, fd: Fd, _follow: PathFlags, path: String) -> FsResult<DescriptorStat> {
        self.check(&fd, &path)?;
        HostDescriptor::stat_at(&mut self.inner, fd, nofollow(), path).await
    }

    async fn set_times(&mut self, fd: Fd, accessed: NewTimestamp, modified: NewTimestamp) -> FsResult<()> {
        self.quota()?;
        HostDescriptor::set_times(&mut self.inner, fd, accessed, modified).await
    }

    async fn set_times_at(
        &mut self,
        fd: Fd,
        _follow: PathFlags,
        path: String,
        accessed: NewTimestamp,
        modified: NewTimestamp,
    ) -> FsResult<()> {
        self.check(&fd, &path)?;
        HostDescriptor::set_times_at(&mut self.inner, fd, nofollow(), path, accessed, modified).await
    }

    async fn is_same_object(&mut self, one: Fd, other: Fd) -> wasmtime::Result<bool> {
        HostDescriptor::is_same_object(&mut self.inner, one, other).await
    }

    async fn metadata_hash(&mut self, fd: Fd) -> FsResult<MetadataHashValue> {
        HostDescriptor::metadata_hash(&mut self.inner, fd).await
    }

    async fn metadata_hash_at(&mut self, fd: Fd, _follow: PathFlags, path: String) -> FsResult<MetadataHashValue> {
        self.check(&fd, &path)?;
        HostDescriptor::metadata_hash_at(&mut self.inner, fd, nofollow(), path).await
    }
}

impl FilesView<'_> {
    fn writer(&mut self, fd: &Fd, position: Option<u64>) -> FsResult<Resource<DynOutputStream>> {
        let (quota, file) = (self.quota()?, self.file(fd)?);
        let held = Held::new(&file, &quota)?;
        let signs = Arc::clone(self.signs);
        let stream: DynOutputStream = Box::new(Writer { held, position, signs, closed: false });
        Ok(self.inner.table.push(stream)?)
    }
}

impl HostDirectoryEntryStream for FilesView<'_> {
    async fn read_directory_entry(
        &mut self,
        listing: Resource<DirectoryEntryStream>,
    ) -> FsResult<Option<DirectoryEntry>> {
        HostDirectoryEntryStream::read_directory_entry(&mut self.inner, listing).await
    }

    fn drop(&mut self, listing: Resource<DirectoryEntryStream>) -> wasmtime::Result<()> {
        if let Some(quota) = self.quota {
            quota.give_listing();
        }
        HostDirectoryEntryStream::drop(&mut self.inner, listing)
    }
}
