// Machines as sysfs shows their PMUs: formats and capabilities as the kernels of these CPUs list them (Linux 6.1 to 6.18;
// arch/x86/events/intel/{pt,core}.c, arch/x86/events/amd/ibs.c, drivers/perf/arm_spe_pmu.c).
#pragma once

#include "tests/hw/fake_root.h"

namespace ptarmigan {

void IceLake(FakeRoot* sys);         // PT with all periods, mem-loads, one kind of core
void SapphireRapids(FakeRoot* sys);  // as before, and mem-loads-aux
void AlderLake(FakeRoot* sys);       // two kinds of core
void BroadwellPt(FakeRoot* sys);     // PT that cannot set its PSB period, without MTC and CYC
void Zen3(FakeRoot* sys);            // IBS
void Zen4(FakeRoot* sys);            // IBS with L3-miss filter and software filter
void NeoverseN1(FakeRoot* sys);      // SPE
void TwoSpeUnits(FakeRoot* sys);     // big and little cores, each with its own SPE
void JunoBoard(FakeRoot* sys);       // CoreSight: ETMv4 on four CPUs, ETE on two
void CloudMachine(FakeRoot* sys);    // software events only

}  // namespace ptarmigan
