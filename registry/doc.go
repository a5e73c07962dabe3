// Package registry keeps cache files of packed weights in OCI registries, so that a fleet packs once for each kind of
// CPU and every node pulls what its CPU needs.
//
// A reference such as registry.example/models/pose:v3 names an image index (OCI image-spec v1.1.1, image-index.md) of
// the artifact type [ArtifactType]. It lists an image manifest (manifest.md) for each layout, a layout being one way
// XNNPACK packs. A manifest has one layer, of the type [CacheMediaType]: a cache file with the entries of that layout
// alone. What is known of the layout stands in annotations, see [Layout], of the manifest and of its descriptor in
// the index, so the index alone lists the layouts. A pull in a program that also imports package xpwc writes into
// the file how its machine packs, so that programs there need not ask XNNPACK for all of it.
//
//	index                    artifactType application/vnd.xpwc.cache.v1
//	└─ manifest              a layout; artifactType likewise, config application/vnd.xpwc.config.v1+json ("{}")
//	   └─ layer              application/vnd.xpwc.cache-file.v2: the cache file
//
// A file for LiteRT (docs/litert.md) is a layout too, with a layer of the type [LiteRTMediaType]: the file as it is.
// Its annotations have its LiteRT and its model, which the file itself lacks.
//
// Registries of image-spec 1.0, which know no artifactType, keep the same bytes: there the config's media type is
// the artifact's type, as manifest.md has it for both versions ("Guidelines for Artifact Usage").
//
// The same entries, of models' files with the same names, always become the same bytes, whoever packed them, when and
// where, so pushing them again uploads nothing. So fields that matter only where it was packed are left out:
// the directory and the stamps of the model, the times, and the file's random identity, in whose place comes a digest
// of the index, and so of all payloads' checksums. Entries are in the order of their keys, and the generation is 1. A
// node that pulls such a file compares the digests of the model's weights once, with its first load, and notes its own
// path and stamps.
//
// The package needs neither XNNPACK nor cgo.
package registry
