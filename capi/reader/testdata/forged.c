// forged MODEL int8|float32 LAYERS WIDTH HIDDEN DIGEST FILE...
//
// Runs a model with each file, whatever is in it. Prints what each was good for.
#include "model.h"

int main(int argc, char** argv) {
  REQUIRE(argc > 7);
  struct chain c = chain_of(argv + 2);
  map_chain(&c, argv[1]);
  DONE(xnn_initialize(NULL));
  for (int i = 7; i < argc; i++) {
    xpwc_reader* reader;
    const xpwc_status status = xpwc_reader_open(argv[i], argv[6], &reader);
    if (status != XPWC_STATUS_OK) {
      printf("%s: status %u\n", argv[i], (unsigned)status);
      continue;
    }
    struct started s = create_chain(&c, define_chain(&c, reader), reader);
    infer_chain(&c, &s);
    xpwc_reader_verify(reader);
    xpwc_reader_stats stats;
    xpwc_reader_get_stats(reader, &stats);
    printf("%s: %u hits\n", argv[i], (unsigned)stats.hits.entries);
    end_chain(&s);
    xpwc_reader_close(reader);
  }
  return 0;
}
