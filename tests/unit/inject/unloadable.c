// SPDX-License-Identifier: Apache-2.0
// Looks like a shim, but needs what nobody has.
extern int pillion_test_nowhere(void);
void pillion_start_injected(void* injection) {
  (void)injection;
  pillion_test_nowhere();
}
