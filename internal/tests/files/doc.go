// Package files tests cache files: their damage, truncation, compaction, sections, indexes and pruning.
package files
