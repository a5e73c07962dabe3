package execution

import (
	"fmt"
	"slices"
	"strings"

	"xpwc"
	"xpwc/internal/console"
)

// A CacheReport is what a cache did for an execution.
type CacheReport struct {
	File         string         `json:"file"`
	Hits         int64          `json:"hits"`
	Packed       int64          `json:"packed"`
	Reused       int64          `json:"reused"`
	Private      int64          `json:"private"`
	Reasons      []xpwc.Reason  `json:"private_reasons,omitempty"`
	Slow         []ReasonReport `json:"reasons,omitempty"`
	BytesWritten int64          `json:"written_bytes"`
	FileBytes    int64          `json:"file_bytes"`
	PayloadBytes int64          `json:"payload_bytes"`
	Notes        []string       `json:"notes,omitempty"`
}

// A ReasonReport is what made a load slower than mapping for one reason.
type ReasonReport struct {
	Reason  xpwc.Reason     `json:"reason"`
	Kind    xpwc.ReasonKind `json:"kind"`
	Entries int64           `json:"entry_count"`
	Bytes   int64           `json:"bytes"`
	Because string          `json:"because"`
}

// ReportReasons lists counts by reason.
func ReportReasons(counts map[xpwc.Reason]xpwc.Count) []ReasonReport {
	reports := []ReasonReport{}
	for _, r := range xpwc.Reasons() {
		if n, counted := counts[r]; counted {
			reports = append(reports, ReasonReport{r, r.Kind(), n.Entries, n.Bytes, r.Text()})
		}
	}
	return reports
}

// SlowCell writes the reasons with their counts.
func SlowCell(reports []ReasonReport) string {
	if len(reports) == 0 {
		return console.Blank
	}
	cells := make([]string, len(reports))
	for i, r := range reports {
		cells[i] = fmt.Sprintf("%s %d", r.Reason, r.Entries)
	}
	return strings.Join(cells, ", ")
}

// ReportCache sums up the statistics of the cache at path.
func ReportCache(path string, s xpwc.Stats) *CacheReport {
	r := &CacheReport{
		File:         path,
		Hits:         s.Hits.Entries,
		Packed:       s.Packed.Entries,
		Reused:       s.Reused.Entries,
		BytesWritten: s.WrittenBytes,
		FileBytes:    s.FileBytes,
		PayloadBytes: s.PayloadBytes,
		Slow:         ReportReasons(s.Reasons),
	}
	r.Private, r.Reasons = Private(s)
	if s.Damaged != nil {
		r.Notes = append(r.Notes, fmt.Sprintf("the file was damaged, and its weights were packed again: %v", s.Damaged))
	}
	if s.LastError != nil {
		r.Notes = append(r.Notes, s.LastError.Error())
	}
	return r
}

// Private counts the entries in private memory, and lists the reasons in alphabetical order.
func Private(s xpwc.Stats) (entries int64, reasons []xpwc.Reason) {
	for reason, count := range s.Private {
		if count.Entries > 0 {
			entries += count.Entries
			reasons = append(reasons, reason)
		}
	}
	slices.Sort(reasons)
	return entries, reasons
}

// PrivateCell writes how many entries are in private memory, and why.
func PrivateCell(entries int64, reasons []xpwc.Reason) string {
	if len(reasons) == 0 {
		return fmt.Sprint(entries)
	}
	names := make([]string, len(reasons))
	for i, r := range reasons {
		names[i] = string(r)
	}
	return fmt.Sprintf("%d (%s)", entries, strings.Join(names, ", "))
}
