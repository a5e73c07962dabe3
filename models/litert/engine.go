package litert

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"time"
)

// An EngineCache is the name of a cache file of LiteRT-LM's engine: BUNDLE_TIME_SIZE.xnnpack_cache, or with the part
// of the model before the last dot. The engine computes it at each start from the bundle's file, and keeps the file
// beside the bundle, or in its option cache_dir. It deletes the bundle's other caches of that part before it writes
// one. Near a whole second it may look for either of two names: see [EngineCache.Names].
type EngineCache struct {
	Bundle string    // name of the bundle's file, without directory
	Time   time.Time // of the bundle's last change; the name has its seconds
	Size   int64     // of the bundle, in bytes
	Part   string    // "" for the language model itself, or as "vision_encoder"
}

const engineExtension = ".xnnpack_cache"

// enginePart are the parts of bundles that the engine packs, by the role of the model. It has no cache for other
// models.
var enginePart = map[string]string{
	"tf_lite_prefill_decode": "",
	"tf_lite_vision_encoder": "vision_encoder",
	"tf_lite_vision_adapter": "vision_adapter",
	"tf_lite_audio_adapter":  "audio_adapter",
	"tf_lite_mtp_drafter":    "mtp_drafter",
}

// EngineCacheOf returns the name of the cache for the model of a role in a bundle. It reports false for roles that the
// engine is not known to have a cache for.
func EngineCacheOf(info fs.FileInfo, role string) (EngineCache, bool) {
	part, ok := enginePart[role]
	return EngineCache{Bundle: info.Name(), Time: info.ModTime(), Size: info.Size(), Part: part}, ok
}

var engineName = regexp.MustCompile(`^(.+)_(-?[0-9]{1,18})_([0-9]{1,18})(?:\.([a-z_]+))?\.xnnpack_cache$`)

// ParseEngineCache reads the name of the file at a path. It reports false if the engine gives no such name.
func ParseEngineCache(path string) (c EngineCache, ok bool) {
	m := engineName.FindStringSubmatch(filepath.Base(path))
	if m == nil {
		return c, false
	}
	seconds, _ := strconv.ParseInt(m[2], 10, 64) // the expression limits the digits
	size, _ := strconv.ParseInt(m[3], 10, 64)
	return EngineCache{Bundle: m[1], Time: time.Unix(seconds, 0), Size: size, Part: m[4]}, true
}

// conversionError bounds the error with which the engine converts the bundle's time. It reads two clocks one after the
// other: 1 µs was seen, and a process that waits for a processor between the two reads adds its wait.
const conversionError = 50 * time.Millisecond

// Names returns the names that the engine may look for, the exact one first. There are two if the bundle's time is
// nearly a whole second, as tar and OCI layers set it.
func (c EngineCache) Names() []string {
	names := []string{c.String()}
	for _, e := range []time.Duration{-conversionError, conversionError} {
		near := c
		near.Time = c.Time.Add(e)
		if name := near.String(); name != names[0] {
			names = append(names, name)
		}
	}
	return names
}

// String is the file's name by the exact time.
func (c EngineCache) String() string {
	name := fmt.Sprintf("%s_%d_%d", c.Bundle, c.Time.Unix(), c.Size)
	if c.Part != "" {
		name += "." + c.Part
	}
	return name + engineExtension
}
