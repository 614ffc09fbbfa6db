//! The tables of the lessons. The store's migration runs the same file as [`CREATE`]; nothing else changes tables.

/// Every table and index of the lessons.
///
/// `lesson.body` is the lesson; the other columns are made from it. Lessons in quarantine stand in
/// neither index, so no search can find them. Vectors lie in chunks by the number of their lesson.
pub const CREATE: &str = include_str!("schema.sql");
