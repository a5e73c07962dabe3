// Package crash tests what a cache file holds after kills, power failures, failed flushes and full disks.
package crash
