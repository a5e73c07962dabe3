package writer

// A Count is a number of entries and their bytes.
type Count struct {
	Entries int64
	Bytes   int64
}

func (c *Count) add(n int) { c.Entries++; c.Bytes += int64(n) }

// Figures are a writer's counters, and the sizes of its file: see xpwc.Stats.
type Figures struct {
	Hits            Count
	Misses          int64
	Waits           int64
	WaitTimeouts    int64
	Packed          Count
	Reused          Count
	Verified        Count
	DamagedPayloads int64
	Unverified      Count
	Compactions     int64
	Private         map[string]Count
	LostPayloads    int64
	CopiedBytes     int64
	MappedBytes     int64
	PrivateBytes    int64
	Generation      uint64
	Entries         int
	FileBytes       int64
	PayloadBytes    int64
	DeadBytes       int64
	WrittenBytes    int64
	Damaged         error
	LastError       error
}

// Figures returns a copy of the figures.
func (w *Writer) Figures() Figures {
	w.mu.Lock()
	defer w.unlock()
	w.describeLocked()
	f := w.figures
	f.Private = map[string]Count{}
	for reason, count := range w.figures.Private {
		f.Private[reason] = count
	}
	for _, e := range w.unverifiedLocked() {
		f.Unverified.add(len(e.Data))
	}
	return f
}

// describeLocked updates the file's figures while it is open.
func (w *Writer) describeLocked() {
	if w.inMemory() || w.phase == closed {
		return
	}
	slot := &w.loaded.slot
	w.figures.Generation, w.figures.Entries = slot.Generation, int(slot.Records)
	w.figures.FileBytes = int64(slot.End)
	w.figures.PayloadBytes, w.figures.DeadBytes = int64(slot.PayloadBytes), int64(slot.DeadBytes)
}
