// Package inference runs models: one call opens a model and its cache, packs what the cache does not have, and gives a
// [Runner].
//
//	model, err := tflite.Load("pose.tflite", "pose.xpwc", nil)
//	defer model.Close()
//	outputs, err := model.Run(ctx, picture)         // a []float32
//	landmarks, err := inference.Output[float32](outputs[0])
//
// [xpwc/models/tflite.Load] and [xpwc/models/executorch.Load] read such models from files; [Load] takes any other
// [models.Model]. A host that gives XNNPACK memory, a thread pool or a workspace of its own uses packages xpwc, models
// and xnnpack itself, as the example of [xpwc/models/tflite.Model.Subgraph] does.
//
// # Numbers
//
// An input is a slice of the type of its value's [models.Value.Element], row by row; so is an output:
//
//	float32, float64, int8, uint8, int16, int32, int64, bool   slices of this type
//	float16, bfloat16                                          []uint16, the bits of each number
//
// Quantized values are the integers themselves; [models.Value.Quantization] has their meaning.
//
// # Processes and goroutines
//
// Loads of one cache file share the packed weights, in one process and in many. A Runner computes as many Runs at the
// same time as [Options.Instances] allows; further ones wait for their turn, in the order in which they came. Each
// instance has memory of its own for values, and the packed weights are there once. [Runner.Reload] puts another
// version of the model in force while Runs go on.
package inference
