package tflite

import (
	"math"

	"xpwc/internal/flatbuf"
	"xpwc/internal/operators"
)

// TFLite_Detection_PostProcess, what object detectors of TensorFlow's models end in: encoded boxes, scores and anchors.
// The options are a map in a FlexBuffer.
func planDetection(c *call) {
	options, ok := flatbuf.FlexNumbers(c.op.bytes.In(c.plan.file))
	if !ok {
		malformed("options that are no map")
	}
	whole := func(key string, absent int) int {
		n, ok := options[key]
		if !ok {
			return absent
		}
		if math.IsNaN(n) || math.Abs(n) > operators.MostIndices {
			malformed("%s of %v", key, n)
		}
		return int(n)
	}
	single := func(key string) float32 { return float32(options[key]) }
	d := operators.Detection{Most: whole("max_detections", 0), Classes: whole("num_classes", 0),
		PerBox: whole("max_classes_per_detection", 0), PerClass: whole("detections_per_class", 100),
		ByClass: options["use_regular_nms"] != 0, MinScore: single("nms_score_threshold"),
		Overlap: single("nms_iou_threshold")}
	for i, key := range []string{"y_scale", "x_scale", "h_scale", "w_scale"} {
		d.Scales[i] = float64(single(key))
	}
	for i := range 3 {
		if v := c.operand(i); v.dtype != typeFloat32 && !c.wide {
			unsupported("input %d of type %v", i, c.declared(i))
		}
	}
	if len(c.op.outputs) != 4 {
		malformed("%d outputs", len(c.op.outputs))
	}
	for _, n := range c.op.outputs {
		if t := &c.plan.graph.tensors[n]; t.dtype != typeFloat32 {
			malformed("output %q of type %v", t.name, t.dtype)
		}
	}
	c.host(operators.Detect(d), 0, 1, 2)
}
