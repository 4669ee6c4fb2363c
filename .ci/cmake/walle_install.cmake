# cmake --install: the programs, and the device library for apps, found by CMake and by pkg-config.
#
#   find_package(walle-device)    walle::device        the runtime with its Linux port
#   pkg-config walle-device       walle::device-core   the runtime alone, for an app with ports of its own
#
# Headers lie under include/walle: -I that folder, then #include "posix/posix_port.h".
include(GNUInstallDirs)

set(WALLE_HEADERS_device/include/device blobs.h cloud.h device.h port.h state_record.h)
set(WALLE_HEADERS_device/pipeline/record record.h)
set(WALLE_HEADERS_device/port/posix posix_port.h posix_enroll.h)
set(WALLE_HEADERS_device/wire attrs.h digest.h enrolment.h manifest.h outcome.h report.h tolerance.h)
set(WALLE_HEADERS_device/wire/cloud cloud_counts.h tensor_call.h)
set(WALLE_HEADERS_device/wire/trust root.h statement.h)
set(WALLE_HEADERS_engine/base cursor.h error.h log.h ports.h span.h status.h str.h)
foreach(folder device/include/device device/pipeline/record device/port/posix device/wire device/wire/cloud device/wire/trust engine/base)
    string(REGEX REPLACE "^(device/include|device/port|device|engine)/" "" name ${folder})
    foreach(header ${WALLE_HEADERS_${folder}})
        install(FILES ${folder}/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/walle/${name})
    endforeach()
endforeach()

# The archives that a target is linked of, each before those it uses.
function(walle_archives target out)
    set(found ${${out}})
    if(NOT target IN_LIST found)
        get_target_property(uses ${target} LINK_LIBRARIES)
        foreach(use ${uses})
            if(TARGET ${use})
                get_target_property(type ${use} TYPE)
                if(type STREQUAL STATIC_LIBRARY)
                    walle_archives(${use} found)
                endif()
            endif()
        endforeach()
        list(PREPEND found ${target})
    endif()
    set(${out} ${found} PARENT_SCOPE)
endfunction()

# NAME.pc of a library: its archives, what they need of the system, and where the task runner lies.
function(walle_pkgconfig name target description requires libs)
    set(archives "")
    walle_archives(${target} archives)
    set(NAME ${name})
    set(DESCRIPTION ${description})
    string(REPLACE ";" " " REQUIRES "${requires}")
    file(RELATIVE_PATH PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX}) # wherever it is moved to
    set(LIBS "")
    foreach(archive ${archives})
        get_target_property(file ${archive} OUTPUT_NAME)
        if(NOT file)
            set(file ${archive})
        endif()
        string(APPEND LIBS " -l${file}")
    endforeach()
    string(APPEND LIBS " ${libs}")
    configure_file(.ci/cmake/walle-device.pc.in ${CMAKE_BINARY_DIR}/${name}.pc @ONLY)
    install(FILES ${CMAKE_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()

set(core_requires libxxhash)
set(device_requires libevent_core libevent_extra libevent_pthreads libnghttp2 openssl libzstd lmdb libxxhash libprotobuf-c libjpeg libpng)
walle_pkgconfig(walle-device walle-device-posix "Walle's device runtime with its Linux port" "${device_requires}" "-pthread -ldl -lm")
walle_pkgconfig(walle-device-core walle-device-core "Walle's device runtime, for an app with ports of its own" "${core_requires}" "-lm")

walle_archives(walle-device-posix device_archives)
foreach(archive ${device_archives})
    string(REGEX REPLACE "^walle-" "" name ${archive})
    set_target_properties(${archive} PROPERTIES EXPORT_NAME ${name})
endforeach()
set_target_properties(walle-device-posix PROPERTIES EXPORT_NAME device)
install(TARGETS ${device_archives} EXPORT walle-device
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/walle)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/walle-device)
install(EXPORT walle-device NAMESPACE walle:: FILE walle-device-targets.cmake DESTINATION ${package})
include(CMakePackageConfigHelpers)
configure_package_config_file(.ci/cmake/walle-device-config.cmake.in ${CMAKE_BINARY_DIR}/walle-device-config.cmake
    INSTALL_DESTINATION ${package} PATH_VARS CMAKE_INSTALL_BINDIR)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/walle-device-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/walle-device-config.cmake ${CMAKE_BINARY_DIR}/walle-device-config-version.cmake DESTINATION ${package})

# Programs with the engine look for the library of CUDA kernels beside them, wherever they are moved to. As an RPATH of
# the older kind, which holds for whoever in the process opens a library: a sanitizer's dlopen does, in its place.
foreach(program walle-gateway walle-infer walle-engine-cli)
    target_link_options(${program} PRIVATE -Wl,--disable-new-dtags)
    set_target_properties(${program} PROPERTIES BUILD_RPATH "$ORIGIN/../lib" INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
endforeach()
if(TARGET walle-engine-cuda)
    install(TARGETS walle-engine-cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT engine)
endif()
install(TARGETS walle-engine-cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT engine)
install(TARGETS walle-gateway walle-infer walle walle-store-tool walle-fleet-sim walle-device walle-task-runner
    RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
