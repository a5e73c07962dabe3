package ideal

import (
	"encoding/binary"
	"errors"
	"io"
	"math"
)

// ErrNotRecording is matched by the error of opening a file that is not one that Save wrote.
var ErrNotRecording = errors.New("not a recording of packed weights")

// The file: payloads, each at a multiple of alignment; a place for each; a footer. Little-endian.
type place struct{ Offset, Size uint64 }

type footer struct {
	Places uint64 // how many
	Magic  [8]byte
}

const alignment = 128

var (
	magic      = [8]byte([]byte("XPWIDEAL"))
	placeSize  = binary.Size(place{})
	footerSize = binary.Size(footer{})
)

func write(w io.Writer, payloads [][]byte) error {
	var places []place
	var at uint64
	for _, p := range payloads {
		places = append(places, place{at, uint64(len(p))})
		if _, err := w.Write(p); err != nil {
			return err
		}
		gap := -uint64(len(p)) % alignment
		if _, err := w.Write(make([]byte, gap)); err != nil {
			return err
		}
		at += uint64(len(p)) + gap
	}
	if err := binary.Write(w, binary.LittleEndian, places); err != nil {
		return err
	}
	return binary.Write(w, binary.LittleEndian, footer{uint64(len(places)), magic})
}

// parse returns where the payloads lie.
func parse(data []byte) ([]place, error) {
	end := len(data) - footerSize
	if end < 0 {
		return nil, ErrNotRecording
	}
	var f footer
	if _, err := binary.Decode(data[end:], binary.LittleEndian, &f); err != nil {
		return nil, err
	}
	if f.Magic != magic || f.Places > uint64(min(end/placeSize, math.MaxInt32)) {
		return nil, ErrNotRecording
	}
	begin := end - int(f.Places)*placeSize
	places := make([]place, f.Places)
	if _, err := binary.Decode(data[begin:end], binary.LittleEndian, places); err != nil {
		return nil, err
	}
	for _, p := range places {
		if p.Offset%alignment != 0 || p.Size > uint64(begin) || p.Offset > uint64(begin)-p.Size {
			return nil, ErrNotRecording
		}
	}
	return places, nil
}
