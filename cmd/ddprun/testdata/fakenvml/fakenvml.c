#include <stdlib.h>
#include <stdio.h>
static int env(const char*k,int d){const char*v=getenv(k);return v?atoi(v):d;}
int nvmlInit_v2(void){return env("FAKE_INIT",0);}
int nvmlInitWithFlags(unsigned f){(void)f;return env("FAKE_INIT",0);}
int nvmlShutdown(void){return 0;}
int nvmlDeviceGetCount_v2(unsigned*n){*n=(unsigned)env("FAKE_N",4);return 0;}
int nvmlDeviceGetHandleByIndex_v2(unsigned i,void**h){if((int)i>=env("FAKE_N",4))return 2;*h=(void*)(size_t)(i+1);return 0;}
int nvmlDeviceGetUUID(void*h,char*b,unsigned n){snprintf(b,n,"GPU-%08x-1111-2222-3333-444444444444",0xa0u+(unsigned)(size_t)h-1);return 0;}
int nvmlDeviceGetName(void*h,char*b,unsigned n){(void)h;snprintf(b,n,"Stub 9000");return 0;}
int nvmlDeviceGetIndex(void*h,unsigned*i){*i=(unsigned)(size_t)h-1;return 0;}
int nvmlDeviceGetMigMode(void*h,unsigned*c,unsigned*p){(void)h;*c=*p=0;return 0;}
int nvmlSystemGetDriverVersion(char*b,unsigned n){snprintf(b,n,"999.01");return 0;}
const char*nvmlErrorString(int r){return r==18?"stub: library and kernel module differ":"stub error";}
/* build: gcc -shared -fPIC -o libnvidia-ml.so.1 fakenvml.c   use: LD_LIBRARY_PATH=$PWD FAKE_N=4 ddprun devices */
