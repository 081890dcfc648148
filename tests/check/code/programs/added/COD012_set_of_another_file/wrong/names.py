# SPDX-License-Identifier: Apache-2.0
TRACKED = {"loss", "accuracy", "perplexity", "tokens"}
