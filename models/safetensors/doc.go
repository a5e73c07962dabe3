// Package safetensors reads and writes safetensors files, and gives their tensors to sessions: a [File] is an
// [xpwc.DataMap].
//
//	weights, err := safetensors.Open("model.safetensors") // or "model.safetensors.index.json"
//	session, err := cache.NewSession(weights)
//	kernel, err := session.Load("layers.0.q_proj.weight", xpwc.PackedAs(packing))
//	… create the runtime, session.Finalize(), run it, delete it, session.Close()
//	err = weights.Close()
//
// # The format
//
// A file is the length of its header (8 bytes, little-endian), the header, and the tensors' bytes. The header is a
// JSON object which begins with '{' and may be filled up with spaces. Each member is a tensor: name, dtype, shape,
// and data_offsets, its first byte and the byte after its last, counted from the end of the header. The member
// __metadata__ is free text instead. Elements are little-endian, row by row. The tensors cover all that follows the
// header, each once. A sharded model is several such files and an index, a JSON object whose member weight_map gives
// for each tensor the file that has it.
//
// The format is specified by the README, the JSON schema and the reference implementation of
// github.com/huggingface/safetensors; the index is what huggingface_hub writes. What the reference implementation 0.8
// refuses is refused here too: headers of more than 100 MB, types it does not know, sizes that differ from the
// shape or that overflow, holes, overlaps. So are names that come twice, which the specification forbids, and members
// of a tensor that the schema does not have.
//
// # Untrusted files
//
// Everything in a file is checked before it is used: no file makes this package read outside the mapping. A file that
// is cut off while it is mapped ends the process that reads the missing pages.
package safetensors
