//! Brings a database to the schema of this program. Knows nothing of what the tables mean.

use rusqlite::{Connection, params};
use sha2::{Digest as _, Sha256};

use super::failed_to;
use crate::store::StoreError;

/// What every schema came by, oldest first. The place in the list is the schema's version, from 1.
const MIGRATIONS: [&str; 1] = [include_str!("migrations/0001_first.sql")];

/// "Atro": marks the file as a database of Atropos.
const APPLICATION_ID: i64 = 0x4174_726f;

/// The version of the schema that this program writes.
pub(super) fn known() -> i64 {
    i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX)
}

/// Applies what is missing, all of it in one transaction.
///
/// # Errors
/// The schema is newer than this program, or was made by another text than the one that is frozen here.
pub(super) fn migrate(conn: &mut Connection) -> Result<(), StoreError> {
    let found: i64 = conn
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .map_err(failed_to("read the schema's version"))?;
    if found > known() {
        return Err(StoreError::SchemaTooNew { found, known: known() });
    }
    let applied = usize::try_from(found).unwrap_or(0);
    if applied > 0 {
        verify(conn, applied)?;
    }
    if applied == MIGRATIONS.len() {
        return Ok(());
    }
    apply(conn, applied).map_err(failed_to("migrate the schema"))
}

fn apply(conn: &mut Connection, applied: usize) -> rusqlite::Result<()> {
    let tx = conn.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    tx.execute_batch(
        "CREATE TABLE IF NOT EXISTS migrations (version INTEGER PRIMARY KEY, sha256 TEXT NOT NULL) STRICT",
    )?;
    for (version, text) in (1_i64..).zip(MIGRATIONS).skip(applied) {
        tx.execute_batch(text)?;
        tx.execute("INSERT INTO migrations (version, sha256) VALUES (?1, ?2)", params![version, sha256(text)])?;
    }
    tx.pragma_update(None, "application_id", APPLICATION_ID)?;
    tx.pragma_update(None, "user_version", known())?;
    tx.commit()
}

fn verify(conn: &Connection, applied: usize) -> Result<(), StoreError> {
    let what = failed_to("read which migrations were applied");
    let mut statement = conn.prepare("SELECT sha256 FROM migrations ORDER BY version").map_err(what)?;
    let found = statement
        .query_map([], |row| row.get::<_, String>(0))
        .and_then(Iterator::collect::<rusqlite::Result<Vec<_>>>)
        .map_err(failed_to("read which migrations were applied"))?;
    let differs = found.iter().zip(MIGRATIONS).find(|(found, text)| **found != sha256(text));
    match differs {
        Some((found, _)) => {
            Err(StoreError::Unreadable { expected: "the checksum of a migration", value: found.clone() })
        }
        None if found.len() != applied => {
            Err(StoreError::Unreadable { expected: "a row for each migration", value: found.len().to_string() })
        }
        None => Ok(()),
    }
}

fn sha256(text: &str) -> String {
    Sha256::digest(text).iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_released_migration_is_never_edited() {
        let frozen = MIGRATIONS.map(sha256);
        assert_eq!(frozen, ["1a7b079449590384da225956871eec0c8fd76de394aabb6e6bb9fd79b03deb79"]);
    }
}
