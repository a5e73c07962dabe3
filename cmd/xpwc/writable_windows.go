package main

// mayWrite is true: Windows tells only who opens the file for writing.
func mayWrite(string) bool { return true }
