//go:build linux && cgo

package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"xpwc/internal/tests/testkit"
)

// What users of ExecuTorch rely on, as testdata/executorch has it: each scenario is a process, and the scenarios of one
// behaviour share a directory.
var executorchBehaviours = map[string][]string{
	"Methods share packed weights":                     {"methods_share_packed_weights"},
	"Reloading a model does not grow the file":         {"reloading_does_not_grow_the_file"},
	"Saving nothing new leaves the file as it is":      {"saving_nothing_new_leaves_the_file"},
	"Without its program a process packs and compares": {"next_process_compares"},
	"Programs share if their bytes are equal":          {"what_programs_share"},
	"Programs that were exported again are right, because what is packed is compared": {
		"recalibrated_programs_compared",
		"recalibrated_programs_compared",
	},
	"Programs that were exported again are right, because their bytes are given": {
		"recalibrated_programs_told",
		"recalibrated_programs_told",
	},
	"Programs that were exported again are right for hosts of both kinds": {
		"recalibrated_programs_compared",
		"recalibrated_programs_told",
		"recalibrated_programs_compared",
	},
	"A second process packs nothing": {
		"first_process_packs",
		"next_process_packs_nothing",
		"next_process_packs_nothing",
	},
	"Names in memory are counted":                         {"names_in_memory_are_counted"},
	"Names in the file stay":                              {"names_in_the_file_stay"},
	"Constants are listed until the runtime is finalized": {"unpacked_names_are_listed"},
	"Packed weights have metadata":                        {"packed_data_has_metadata"},
	"Options reach the cache":                             {"options_reach_the_cache"},
	"A host that may only read packs in memory":           {"read_only"},
	"Damage is found on use, if the host wants it":        {"damage_is_found_on_use"},
	"Damage is found by comparing":                        {"damage_is_found_by_comparing"},
	"Options take effect while there are no runtimes":     {"options_wait_for_runtimes_to_go"},
	"Options that make no sense are refused":              {"options_that_make_no_sense"},
	"Messages go to the host's log":                       {"messages_go_to_the_host"},
	"Figures can be read":                                 {"figures"},
	"The manager's options apply to its caches":           {"manager_sets_options"},
	"Kernels are freed when the runtime is finalized":     {"kernels_are_freed_by_finalize"},
	"Kernels of a mapped file leave memory":               {"kernels_of_a_mapped_file_leave_memory"},
	"Damaged programs are read within their bytes":        {"damaged_programs"},
	"Slopes stay readable":                                {"slopes_stay_readable"},
	"Kernels that inference reads stay readable":          {"kernels_that_inference_reads_stay_readable"},
	"Kernels with a second name stay readable":            {"kernels_stay_readable_by_another_name"},
	"Of two runtimes with the same names one can go":      {"equal_names_one_destroyed"},
	"Replacing a model by itself piles nothing up":        {"handing_over_piles_nothing_up"},
	"The same names may have other contents":              {"same_names_other_contents"},
	"Two runtimes may differ in the packed weights alone": {"same_names_other_weights_alone"},
	"Packed weights in memory are given back":             {"memory_is_given_back"},
	"Wild deletions are harmless":                         {"wild_deletions_are_harmless"},
	"The same scales are found again": {
		"first_process_packs_quantized",
		"same_scales_in_the_next_process",
	},
	"Other scales under the same kernel are right in the next process": {
		"first_process_packs_quantized",
		"other_scales_in_the_next_process",
		"same_scales_in_the_next_process",
	},
	"The same scales of a program are found again": {
		"first_process_packs_quantized_programs",
		"same_scales_in_the_next_process_of_programs",
	},
	"Programs of equal bytes may have constants of other contents": {
		"first_process_packs_quantized_programs",
		"other_scales_in_the_next_process_of_programs",
		"same_scales_in_the_next_process_of_programs",
	},
	"One kernel may be used in two shapes": {"one_kernel_in_two_shapes"},
	"A host can describe the packing of each kernel": {
		"first_process_says_its_scales",
		"next_process_says_other_scales",
	},
	"Scales in the program alone are right":                {"scales_that_nobody_says", "scales_that_nobody_says"},
	"Saying it at the wrong time is an error":              {"saying_at_the_wrong_time"},
	"A failed compilation leaves nothing behind":           {"failed_compilation"},
	"Calls in the wrong order get errors":                  {"misuse_gets_errors"},
	"The provider is safe outside of a runtime's creation": {"provider_outside_of_creation"},
	"A file that is no cache is left alone":                {"foreign_file_is_left_alone"},
	"Without its directory the cache is in memory":         {"missing_directory"},
	"Two caches of one path share the file":                {"two_caches_of_a_path"},
	"Runtimes are executed while others are created":       {"executing_while_creating"},
	"The manager has one cache for each path":              {"manager"},
}

// executorch returns the directory with ExecuTorch's headers and runtime.
func executorch(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", "third_party", "executorch"))
	require.NoError(t, err)
	buildOnce(t, "executorch", func(string) error { return tool("..", nil, "third_party/fetch-executorch") })
	return dir
}

// Flags and sources are in files, relative to this directory. XNNPACK comes before libexecutorch, which would otherwise
// bring the system's libm into a process that needs that of third_party.
const (
	executorchFlags     = "@testdata/executorch/flags"
	executorchSources   = "@testdata/executorch/sources"
	executorchLibraries = "@testdata/executorch/libraries"
)

// executorchObjects returns a compiler's flag that links the sources and the scenarios, which are compiled once.
func executorchObjects(t *testing.T, c compiler) string {
	t.Helper()
	return "-Wl," + buildOnce(t, c.command+"-executorch.o", func(path string) error {
		args := append([]string{"-O1", "-g", "-r", "-nostdlib", "-o", path}, warnings...)
		args = append(append(args, c.flags...), "-I"+filepath.Join(installed(t), prefix, "include"))
		args = append(args, settings(t, "CGO_CFLAGS")...)
		args = append(args, executorchFlags, executorchSources, "@testdata/executorch/scenarios")
		return tool("", nil, c.command, args...)
	})
}

func TestExecuTorchKeepsItsBehaviour(t *testing.T) {
	t.Parallel()
	recalibrated, err := filepath.Abs(filepath.Join("testdata", "executorch", "recalibrated"))
	require.NoError(t, err)
	env := []string{"LD_LIBRARY_PATH=" + filepath.Join(executorch(t), "lib"), "XPWC_RECALIBRATED=" + recalibrated}
	for _, c := range testkit.Drawn(t, compilersFor("scenarios.cc")) {
		flags := []string{executorchFlags, executorchLibraries, executorchObjects(t, c)}
		for _, l := range testkit.Drawn(t, linkages) {
			p := program{source: "executorch/scenarios.cc", compiler: c, linkage: l, flags: flags}
			for behaviour, scenarios := range executorchBehaviours {
				t.Run(strings.Join([]string{behaviour, c.command, string(l)}, "/"), func(t *testing.T) {
					t.Parallel()
					dir := t.TempDir()
					for _, scenario := range scenarios {
						p.run(t, env, scenario, dir)
					}
				})
			}
		}
	}
}

func TestTheSourcesForExecuTorchNeedNeitherExceptionsNorAnOldXNNPACK(t *testing.T) {
	t.Parallel()
	executorch(t)
	for _, c := range compilersFor("scenarios.cc") {
		for name, flags := range map[string][]string{
			"included twice, without exceptions and RTTI": {
				"-fno-exceptions", "-fno-rtti", "-include", "xpwc_executorch.hpp",
			},
			"XNNPACK of March 2026, C++20": append(newer(t), "-std=c++20"),
		} {
			t.Run(c.command+"/"+name, func(t *testing.T) {
				t.Parallel()
				args := append([]string{"-fsyntax-only"}, warnings...)
				args = append(append(args, c.flags...), flags...)
				args = append(args, "-Iinclude", executorchFlags, executorchSources)
				args = append(args, settings(t, "CGO_CFLAGS")...)
				args = append(args, filepath.Join("testdata", "executorch", "includes.cc"))
				require.NoError(t, tool("", nil, c.command, args...))
			})
		}
	}
}

func TestExecuTorchsConstantsMayBeCopiedByXNNPACK(t *testing.T) {
	t.Parallel()
	env := []string{"LD_LIBRARY_PATH=" + filepath.Join(executorch(t), "lib")}
	flags := newer(t)
	lib := newerLibrary(t, flags)
	flags = append(flags, executorchFlags, executorchSources, executorchLibraries)
	for _, c := range compilersFor("alias.cc") {
		t.Run(c.command, func(t *testing.T) {
			p := program{source: "executorch/alias.cc", compiler: c, linkage: static, flags: flags, lib: lib}
			p.run(t, env, t.TempDir())
		})
	}
}
