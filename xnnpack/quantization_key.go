package xnnpack

import (
	"encoding/binary"
	"math"
)

// QuantizationKey describes how the tensors of a node are quantised: what XNNPACK makes of a kernel when it packs it depends on that, yet
// the key it gives a weights cache does not contain it. A host gives these bytes to its cache (xpwc.Quantized), which then tells one
// kernel under two quantisations apart.
//
// The tensors are the node's kernel, bias, input and output, in this order; one that is missing is a zero Tensor. Two calls return
// the same bytes exactly if types, scales, zero points, block sizes, channel dimensions and the kernel's shape are the same bit by bit:
// XNNPACK's key takes [32, 512] for [512, 32]. Names, other shapes and Data do not count, with one exception: if the input is dynamically
// quantised, XNNPACK packs the bias in without naming it in its key, so the bias' Data counts and must be there. The result is nil if
// none of the tensors is quantised.
func QuantizationKey(tensors ...Tensor) []byte {
	const version = 2
	key := []byte{version}
	quantised := false
	const kernel, bias, input = 0, 1, 2
	for i := range tensors {
		t := &tensors[i]
		q := &t.Quantization
		key = append(key, byte(t.Type))
		if i == kernel {
			key = append(key, byte(len(t.Shape)))
			for _, n := range t.Shape {
				key = binary.LittleEndian.AppendUint64(key, uint64(n))
			}
		}
		if i == bias && len(tensors) > input && tensors[input].Type.dynamic() {
			key = binary.LittleEndian.AppendUint64(key, uint64(len(t.Data)))
			key = append(key, t.Data...)
		}
		switch t.Type {
		case QInt8, QUint8, QInt32:
			key = binary.LittleEndian.AppendUint32(key, math.Float32bits(q.Scale))
			key = binary.LittleEndian.AppendUint32(key, uint32(q.ZeroPoint))
		case ChannelQInt8, ChannelQInt32, ChannelQInt4:
			key = binary.LittleEndian.AppendUint32(key, uint32(q.ZeroPoint))
			key = binary.LittleEndian.AppendUint64(key, uint64(q.ChannelDim))
			key = binary.LittleEndian.AppendUint64(key, uint64(len(q.Scales)))
			for _, s := range q.Scales {
				key = binary.LittleEndian.AppendUint32(key, math.Float32bits(s))
			}
		case BlockQInt4:
			key = binary.LittleEndian.AppendUint32(key, uint32(q.ZeroPoint))
			key = binary.LittleEndian.AppendUint64(key, uint64(q.ChannelDim))
			key = binary.LittleEndian.AppendUint64(key, uint64(q.BlockSize))
			key = binary.LittleEndian.AppendUint64(key, uint64(len(q.BlockScales)))
			for _, s := range q.BlockScales {
				key = binary.LittleEndian.AppendUint16(key, s)
			}
		case DynamicQInt8, PackedQInt8:
			key = binary.LittleEndian.AppendUint64(key, uint64(q.NonBatchDims))
		default:
			continue
		}
		quantised = true
	}
	if !quantised {
		return nil
	}
	return key
}
